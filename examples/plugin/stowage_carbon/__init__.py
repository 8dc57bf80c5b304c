"""A plugin of Stowage that knows how much carbon a kilowatt hour costs in each region."""

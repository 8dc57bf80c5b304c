"""The controller's decisions without a controller: of now, of files, and of moves foreseen."""

"""The runtime of controllers: informers, work queues, leader election, events."""

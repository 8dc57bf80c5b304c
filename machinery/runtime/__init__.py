"""What a controller runs on: informers, work queues, leader election, events."""

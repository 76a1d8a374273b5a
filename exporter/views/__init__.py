"""What people and Prometheus read: the admin port. Views read, they decide nothing."""

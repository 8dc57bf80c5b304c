"""LicencePool: seats that Workloads take, wholly in this folder."""

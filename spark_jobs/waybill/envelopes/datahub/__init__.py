"""Alibaba Cloud DataHub topics, as DataWorks writes and reads them."""

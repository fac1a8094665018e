"""What a stage tells by OpenLineage, as Airflow's provider takes it from an operator.

The provider is not among Waybill's requirements, so that only `switch` may be imported without it.
"""

# One image for everything of the stack that is Python or Spark: Airflow, the driver, master and workers.
FROM python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d

RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 50000 waybill
WORKDIR /opt/waybill
RUN chown waybill /opt/waybill
USER waybill

# What the locks name comes first, so that a change of the code does not fetch it again.
COPY --chown=waybill Makefile pyproject.toml README.md LICENSE requirements.txt requirements-dev.txt jars.lock jars-s3.lock ./
COPY --chown=waybill scripts scripts
COPY --chown=waybill spark_jobs/waybill/__init__.py spark_jobs/waybill/__init__.py
COPY --chown=waybill plugins/waybill_airflow/__init__.py plugins/waybill_airflow/__init__.py
COPY --chown=waybill stack stack
COPY --chown=waybill expectations expectations
RUN make setup setup-s3 jars/s3proxy/.ready

COPY --chown=waybill . .

ENV PATH=/opt/waybill/.venv/bin:$PATH \
    PYTHONPATH=/opt/waybill/plugins:/opt/waybill/spark_jobs:/opt/waybill \
    PYSPARK_PYTHON=/opt/waybill/.venv/bin/python \
    SPARK_HOME=/opt/waybill/.venv/lib/python3.11/site-packages/pyspark \
    AIRFLOW_HOME=/opt/waybill/airflow

# A volume takes over the owner of what it is mounted on.
RUN mkdir -p airflow/logs airflow/auth data

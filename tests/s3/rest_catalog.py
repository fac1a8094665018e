"""An Iceberg REST catalog on the loopback address: Iceberg's own servlet, driven from here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.java_gateway import JavaGateway
from pyspark import find_spark_home

PROJECT = Path(__file__).resolve().parents[2]
JARS = PROJECT / "jars"


@contextmanager
def rest_catalog(properties: dict[str, str]) -> Iterator[str]:
    """The URL of a REST catalog in front of a JDBC catalog with these properties."""
    spark = Path(find_spark_home._find_spark_home()) / "jars"
    # Not the runtime for Spark: it holds the same classes in other clothes.
    classes = [*(JARS / "rest").glob("*.jar"), *JARS.glob("sqlite-jdbc-*.jar")]
    classes += spark.glob("hadoop-client-*.jar")
    gateway = JavaGateway.launch_gateway(
        classpath=":".join(map(str, classes)), die_on_exit=True, javaopts=["-Xmx256m"]
    )
    try:
        jvm = gateway.jvm
        catalog = jvm.org.apache.iceberg.jdbc.JdbcCatalog()
        settings = jvm.java.util.HashMap()
        for name, value in properties.items():
            settings.put(name, value)
        catalog.setConf(jvm.org.apache.hadoop.conf.Configuration())
        catalog.initialize("lake", settings)
        servlet = jvm.org.apache.iceberg.rest.RESTCatalogServlet(
            jvm.org.apache.iceberg.rest.RESTCatalogAdapter(catalog)
        )
        handlers = jvm.org.eclipse.jetty.ee10.servlet.ServletContextHandler()
        holder = jvm.org.eclipse.jetty.ee10.servlet.ServletHolder(servlet)
        handlers.addServlet(holder, "/*")
        server = jvm.org.eclipse.jetty.server.Server(jvm.java.net.InetSocketAddress("127.0.0.1", 0))
        server.setHandler(handlers)
        server.start()
        yield f"http://127.0.0.1:{server.getURI().getPort()}"
        server.stop()
    finally:
        gateway.shutdown()
        # It ends when nobody holds the other end of its input.
        gateway.java_process.stdin.close()
        gateway.java_process.wait(30)

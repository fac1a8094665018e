"""Which of Hadoop's settings files of a lake on a disk come with."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from waybill.lake.settings import FIXED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "spark.hadoop."


class FewSettings:
    """Lets a lake's files come with what somebody has set, and not with Hadoop's defaults, too.

    Spark sends a table with every query of it, Iceberg sends with a table the settings that its
    files are reached with (`HadoopFileIO`), and those are more than a thousand: to write them down
    takes the driver longer than to plan a query. Who reads a setting that is not there takes the
    same default.

    Args:
        spark: the session.
        java: gives a class by its full name.
    """

    def __init__(self, spark: SparkSession, java: Callable[[str], Any]) -> None:
        self._spark, self._java = spark, java
        self._done = False

    def give(self, table: Any) -> None:
        """Give them to the files of a catalog, once: all of its tables share what reaches them."""
        if self._done:
            return
        self._done = True
        files = table.io()
        if str(files.getClass().getName()).endswith(".HadoopFileIO"):
            files.setConf(self._of_session())

    def _of_session(self) -> Any:
        settings = self._java("org.apache.hadoop.conf.Configuration")(False)
        for name in ("core-site.xml", "hdfs-site.xml"):
            settings.addResource(name)  # nothing, where there is none
        given = self._spark.sparkContext.getConf()
        # The text hides values that look secret, and to ask for each setting takes longer.
        named = re.findall(rf"^{re.escape(_PREFIX)}[^=\n]+", given.toDebugString(), re.MULTILINE)
        values = {name: given.get(name) for name in named} | FIXED
        for name, value in values.items():
            if name.startswith(_PREFIX):
                settings.set(name.removeprefix(_PREFIX), value)
        return settings

"""Files on a local disk without a process of its own for the permissions of each.

Without a library in C, Hadoop gives a file its permissions by starting `chmod`: for the file and
for its checksum, with every one that Iceberg writes for a commit. That is a hundred processes for a
batch of any size, a tenth of a second of the processor for each table. Java itself can do it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RAW = "org.apache.hadoop.fs.RawLocalFileSystem"
"""What starts the processes; nothing else is replaced."""

CLASS = "waybill.LocalFiles"

_SOURCE = f"""
package waybill;

import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;

public final class LocalFiles extends {RAW} {{
  public void setPermission(
      org.apache.hadoop.fs.Path path, org.apache.hadoop.fs.permission.FsPermission mode)
      throws java.io.IOException {{
    int bits = mode.toShort();
    PosixFilePermission[] every = PosixFilePermission.values();
    if (bits >> every.length != 0) {{
      super.setPermission(path, mode);
      return;
    }}
    Set given = EnumSet.noneOf(PosixFilePermission.class);
    for (int i = 0; i < every.length; i++) {{
      if ((bits >> (every.length - 1 - i) & 1) != 0) {{
        given.add(every[i]);
      }}
    }}
    try {{
      Files.setPosixFilePermissions(this.pathToFile(path).toPath(), given);
    }} catch (UnsupportedOperationException other) {{
      super.setPermission(path, mode);
    }}
  }}
}}
"""
"""In the order of its values Java names the permissions from the owner's to everybody's. Bits
beyond these, and disks that know no such permissions, are left to `chmod`."""

_log = logging.getLogger("waybill")


def set_permissions_in_java(spark: SparkSession) -> bool:
    """Have the Java of a session give local files their permissions itself, from now on.

    Returns:
        Whether it does; else it goes on as it was, which is slower and nothing else.
    """
    try:
        return _replaced(spark)
    except Exception as error:  # noqa: BLE001 - without it everything works, more slowly
        _log.debug("local files get their permissions by chmod: %s", error)
        return False


def _replaced(spark: SparkSession) -> bool:
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    files, none = _local_files(spark), getattr(jvm, "java.lang.Object")
    raw = files.getRawFileSystem()
    name = str(raw.getClass().getName())
    if name != RAW:
        return name == CLASS
    compiler = getattr(jvm, "org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(files.getClass().getClassLoader())
    compiler.cook(_SOURCE)
    made = compiler.getClassLoader().loadClass(CLASS)
    kinds = gateway.new_array(getattr(jvm, "java.lang.Class"), 0)
    own = made.getDeclaredConstructor(kinds).newInstance(gateway.new_array(none, 0))
    own.initialize(files.getUri(), files.getConf())
    # What adds checksums keeps what it adds them to in this field, and nobody may set it.
    filtering = getattr(jvm, "java.lang.Class").forName("org.apache.hadoop.fs.FilterFileSystem")
    field = filtering.getDeclaredField("fs")
    field.setAccessible(True)
    field.set(files, own)
    return True


def _local_files(spark: SparkSession) -> Any:
    """Hadoop's file system of the local disk, of which there is one for all."""
    jvm: Any = spark._jvm
    place = getattr(jvm, "java.net.URI")("file:///")
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    return getattr(jvm, "org.apache.hadoop.fs.FileSystem").get(place, settings)

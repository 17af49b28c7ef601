"""The engine room: Java, jars and the Spark session; the room that imports pyspark."""

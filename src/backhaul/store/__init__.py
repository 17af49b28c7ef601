"""Where do files go? The object store: a folder, S3 or GCS behind one narrow interface."""

"""An index in a LlamaIndex `StorageContext`."""

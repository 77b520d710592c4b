"""The index in a `StorageContext`: index struct, document store, vector stores."""

"""Arrow batches of the archive, of `changes` and of `outbox`, through decoders and encoders."""

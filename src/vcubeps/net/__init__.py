"""The network runtime: peers of `protocol` on asyncio and TCP, and the public API that stands on it."""

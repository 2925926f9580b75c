"""Capture files: pcap and pcapng in and out, and the recorder. See `docs/concepts/captures.md`."""

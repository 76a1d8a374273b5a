"""stallwatch: a sidecar proxy that shows what the users of an LLM inference server feel.

Bytes go through untouched; a copy is stamped as it is read from the engine, and the figures come out on the admin port.

    client <------------- bytes, untouched <------------- engine      relay/   data plane: asyncio protocols on uvloop
              | (bytes, stamp)                                                 nothing here knows what a token is
              v
    tap > framing > dialect > timeline > aggregates                   core/    pure: no clock, no await, no socket
         frames    signals   stamps      counters, histograms                  bytes and stamps in, values out
                                             |
    /metrics, health, index                  v                        views/   read, decide nothing
    simulated engine, load                                            lab/     a bench to try things on

The rooms, and who may import whom (held by import-linter in pyproject.toml):

    cli, app  >  relay | views | lab  >  core  >  names

- `names`     every metric, label and route name: literal tables.
- `settings`  the configuration file and options, checked once, then frozen.
- `app`       the only place that wires parts together.
- `cli`       the command `stallwatch`, one file per sub-command.

Durations inside are int nanoseconds of one monotonic clock; seconds appear only in views.
Not observed is `None`, never 0, -1 or a guess.
"""

__version__ = "0.1.0"

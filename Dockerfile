# The sidecar as an image: built with pip in one stage, copied as a virtual environment into a slim one.
# BASE may name any image with Python 3.11 or newer at the same path in both stages.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY exporter exporter
RUN python3 -m venv /opt/stallwatch \
    && /opt/stallwatch/bin/pip wheel --no-cache-dir -q --no-deps --wheel-dir /wheel . \
    && /opt/stallwatch/bin/pip install --no-cache-dir -q -c constraints.txt /wheel/*.whl \
    && /opt/stallwatch/bin/pip uninstall -q -y pip setuptools

FROM ${BASE}
COPY --from=build /opt/stallwatch /opt/stallwatch
ENV PATH=/opt/stallwatch/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    STALLWATCH_ADMIN=0.0.0.0:9719
# Outside of a container the admin port listens on loopback only. Here Prometheus must reach it; POSTs still need a
# loopback client or the admin token.
EXPOSE 8080 9719
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["python3", "-c", "\
import http.client, os, sys; \
port = int(os.environ['STALLWATCH_ADMIN'].rpartition(':')[2]); \
admin = http.client.HTTPConnection('127.0.0.1', port, timeout=2); \
admin.request('GET', '/-/healthy'); \
sys.exit(admin.getresponse().status != 200)"]
# SIGTERM, the default stop signal, starts the drain.
ENTRYPOINT ["stallwatch"]
CMD ["run"]

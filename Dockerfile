# One image for both processes: `stowage controller` and `stowage propagator`.
# Another base, of a registry of your own say: docker build --build-arg BASE=…
ARG BASE=python:3.13-slim
FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY crds crds
COPY machinery machinery
COPY controller controller
COPY propagator propagator
COPY stowage stowage
COPY deploy deploy
COPY examples examples
RUN python -m venv /opt/stowage && /opt/stowage/bin/pip install --no-cache-dir --no-compile .

FROM ${BASE}
COPY --from=build /opt/stowage /opt/stowage
# The root file system may be read-only: nothing is written at run time, bytecode included.
ENV PATH=/opt/stowage/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["stowage"]

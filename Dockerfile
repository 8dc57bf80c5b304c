# One image for both processes: `stowage controller` and `stowage propagator`.
# Another base, of a registry of your own say: docker build --build-arg BASE=…
# The digest is the one of Python 3.13.15 for all architectures; tag and digest change together.
ARG BASE=python:3.13.15-slim-trixie@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b
FROM ${BASE} AS build
# The uv of the Makefile, by the hashes of its wheels for amd64 and arm64.
RUN printf '%s\n' 'uv==0.13.8 \' \
      '  --hash=sha256:e18a57b8b352eb7c8feb317b9f6f533c8f0ad9673fd6cf34bbe3cf1a9f6a8984 \' \
      '  --hash=sha256:0b3e8b1a4f5e405e31e2ff33de8af4744831e9f7338539671efbd8c3c94e791d \' \
      '  --hash=sha256:5337c30bb893b4f9ce0ceb921ba2da0d13f649da644f40ad3bef84083bef0203' > /tmp/uv.txt \
    && pip install --no-cache-dir --require-hashes --requirement /tmp/uv.txt
ENV UV_PROJECT_ENVIRONMENT=/opt/stowage UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy
WORKDIR /src
# All that is installed, what builds our own wheel included, is of the lock and has its hash.
COPY pyproject.toml uv.lock ./
RUN uv sync --locked --no-default-groups --extra otel --group build --no-install-project
COPY README.md LICENSE ./
COPY crds crds
COPY machinery machinery
COPY controller controller
COPY propagator propagator
COPY stowage stowage
COPY deploy deploy
COPY examples examples
RUN uv sync --locked --no-default-groups --extra otel --group build --no-editable --no-build-isolation \
    && uv sync --locked --no-default-groups --extra otel --no-editable --no-build-isolation

FROM ${BASE}
# Of the release that builds it; a build by hand has neither.
ARG VERSION= REVISION= SOURCE=
LABEL org.opencontainers.image.title=stowage \
      org.opencontainers.image.description="Places workloads across a fleet of Kubernetes clusters, and says why" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION \
      org.opencontainers.image.source=$SOURCE
COPY --from=build /opt/stowage /opt/stowage
# The root file system may be read-only: nothing is written at run time, bytecode included.
ENV PATH=/opt/stowage/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["stowage"]

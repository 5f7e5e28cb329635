# Two stages: the first has tools and builds from locked packages, the last has Debian's
# Python, what was built, and no tool. docs/install.md says how to pin the base.
ARG BASE=docker.io/library/debian:trixie-slim

FROM ${BASE} AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3-venv=3.13.* \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# Two environments: what goes into the image, which never holds pip, and what builds it.
RUN python3 -m venv --without-pip /opt/vgpu && python3 -m venv /opt/build
COPY requirements/runtime.txt requirements/build.txt requirements/
RUN /opt/build/bin/pip --python /opt/vgpu/bin/python install --no-cache-dir \
        --require-hashes --only-binary :all: --requirement requirements/runtime.txt \
    && /opt/build/bin/pip install --no-cache-dir --no-compile \
        --require-hashes --only-binary :all: --requirement requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
RUN /opt/build/bin/python -m hatchling build -t wheel -d /tmp/wheel \
    && /opt/build/bin/pip --python /opt/vgpu/bin/python install --no-cache-dir \
        --no-deps --no-index /tmp/wheel/*.whl

FROM ${BASE}
ARG BASE
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="vgpu-operator" \
      org.opencontainers.image.description="Control plane for sharing accelerators on Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}"
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3=3.13.* \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* /var/log/*
COPY --from=build /opt/vgpu /opt/vgpu
ENV PATH=/opt/vgpu/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["vgpu"]
CMD ["run"]

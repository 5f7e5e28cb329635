# Two stages: the first has tools and resolves the locked packages, the last has neither.
ARG PYTHON_VERSION=3.13

FROM docker.io/library/python:${PYTHON_VERSION}-slim AS build
WORKDIR /src
RUN python -m venv /opt/vgpu
COPY requirements/runtime.txt requirements/runtime.txt
RUN /opt/vgpu/bin/pip install --no-cache-dir --disable-pip-version-check \
    --require-hashes --only-binary :all: --requirement requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
RUN pip install --no-cache-dir --disable-pip-version-check hatchling==1.33.0 \
    && python -m hatchling build -t wheel -d /tmp/wheel \
    && /opt/vgpu/bin/pip install --no-cache-dir --no-deps /tmp/wheel/*.whl \
    && /opt/vgpu/bin/python -m pip uninstall --yes pip

FROM docker.io/library/python:${PYTHON_VERSION}-slim
LABEL org.opencontainers.image.title="vgpu-operator" \
      org.opencontainers.image.description="Control plane for sharing accelerators on Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/vgpu /opt/vgpu
ENV PATH=/opt/vgpu/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["vgpu"]
CMD ["run"]

// Command kubelet is Kubernetes' own kubelet: the module proxy gives its
// sources, not its program.
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	// It handles signals on its own.
	os.Exit(cli.Run(app.NewKubeletCommand(context.Background())))
}

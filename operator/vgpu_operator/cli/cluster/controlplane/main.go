// Command controlplane is a whole Kubernetes control plane in one program:
// its first argument names the component that this process is to be.
//
// Each component stays a process of its own, so that a test can kill one and
// leave the others alone; one program for all of them links the shared
// packages once and keeps the build short.
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var components = map[string]func() *cobra.Command{
	"etcd":                    newEtcdCommand,
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func names() string {
	list := make([]string, 0, len(components))
	for name := range components {
		list = append(list, name)
	}
	sort.Strings(list)
	return strings.Join(list, "|")
}

func main() {
	if len(os.Args) < 2 || components[os.Args[1]] == nil {
		fmt.Fprintf(os.Stderr, "usage: %s %s [flags]\n", os.Args[0], names())
		os.Exit(2)
	}
	newCommand := components[os.Args[1]]
	// Each component parses os.Args on its own and must not see its own name
	// as a positional argument.
	os.Args = os.Args[1:]
	os.Exit(cli.Run(newCommand()))
}

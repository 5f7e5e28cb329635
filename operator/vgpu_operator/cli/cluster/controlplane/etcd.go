package main

import (
	"context"
	"fmt"
	"net/url"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

const etcdStartLimit = time.Minute

type etcdOptions struct {
	dataDir   string
	clientURL string
	peerURL   string
	fsync     bool
}

// newEtcdCommand runs one etcd member inside this process. The data is thrown
// away with its folder, so fsync is off unless it is asked for.
func newEtcdCommand() *cobra.Command {
	options := etcdOptions{}
	command := &cobra.Command{
		Use:          "etcd",
		SilenceUsage: true,
		Args:         cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return options.run(command.Context())
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.dataDir, "data-dir", "", "folder of the database")
	flags.StringVar(&options.clientURL, "client-url", "", "URL that clients connect to")
	flags.StringVar(&options.peerURL, "peer-url", "", "URL that other members would connect to")
	flags.BoolVar(&options.fsync, "fsync", false, "flush every write to the disk")
	for _, name := range []string{"data-dir", "client-url", "peer-url"} {
		if err := command.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
	return command
}

func (o etcdOptions) config() (*embed.Config, error) {
	client, err := url.Parse(o.clientURL)
	if err != nil {
		return nil, fmt.Errorf("--client-url: %w", err)
	}
	peer, err := url.Parse(o.peerURL)
	if err != nil {
		return nil, fmt.Errorf("--peer-url: %w", err)
	}
	config := embed.NewConfig()
	config.Dir = o.dataDir
	config.LogLevel = "warn"
	config.UnsafeNoFsync = !o.fsync
	// Only the command line of etcd itself sets this default; at zero every
	// request is logged as a slow one.
	config.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	config.ListenClientUrls = []url.URL{*client}
	config.AdvertiseClientUrls = []url.URL{*client}
	config.ListenPeerUrls = []url.URL{*peer}
	config.AdvertisePeerUrls = []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	return config, nil
}

func (o etcdOptions) run(parent context.Context) error {
	if parent == nil {
		parent = context.Background()
	}
	ctx, stop := signal.NotifyContext(parent, syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	config, err := o.config()
	if err != nil {
		return err
	}
	member, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	defer member.Close()

	select {
	case <-member.Server.ReadyNotify():
	case <-ctx.Done():
		return nil
	case <-time.After(etcdStartLimit):
		return fmt.Errorf("etcd was not ready after %s", etcdStartLimit)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-member.Err():
		return fmt.Errorf("etcd stopped: %w", err)
	}
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/local/commandline"
	"github.com/gatewright/gatewright/local/product"
	"github.com/gatewright/gatewright/shared/cloud/container"
	"github.com/gatewright/gatewright/shared/config"
)

// gatewayCommand serves deployments beside an installation, as the container of the gateway does. What goes wrong
// is in its log too.
func gatewayCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "gateway",
		Short: "Serve an installation's deployments by a process of their own (docs/gateway-process.md)",
		Args:  commandline.NoWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return container.Serve(cmd.Context(), gateway.Beside, gateway.OpenProcess)
		},
	}
	c.Long = c.Short + ".\n\nThe installation is one over a DynamoDB table and an S3 bucket, in AWS or elsewhere: the files of `gatewright serve` are of one process.\n" +
		"AWS_REGION says where it is, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are the credentials outside of ECS.\n\n" + product.SettingsHelp(gatewaySetting)
	return c
}

// gatewaySetting reports whether the gateway as a process reads a setting, and says what holds there where it is not set.
func gatewaySetting(s *config.Setting) bool {
	const needed = "needed"
	switch s.Name {
	case config.VarTable, config.VarBucket, config.VarDeploymentURL:
		s.Default = needed
	case config.VarKeyFile, config.VarKMSKey:
		s.Default = "one of the two is needed"
	case config.VarTLSCertificate, config.VarTLSKey, config.VarRelay, config.VarUnderscores, config.VarLimits:
	case config.VarPrivateUpstreams:
		s.Default = "false"
	case config.VarDynamoDBEndpoint, config.VarS3Endpoint:
		s.Default = "that of AWS"
	case config.VarTLSAddr:
		s.Range, s.Default = "host:port", fmt.Sprintf(":%d", gateway.Beside.Port.Listens)
	case config.VarGatewayAddr:
		s.What, s.Default = "where deployments are served by plain HTTP", ""
	case config.VarConnectionsPerAddress:
		s.Default = "no bound; 1000 with the PROXY protocol"
	default:
		return s.Kind == config.Process || s.Kind == config.Clients
	}
	return true
}

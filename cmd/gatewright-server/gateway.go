package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/local/product"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/runtime/cloud/container"
	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

// gatewayCommand returns the command that serves the deployments of an installation from a separate process, as the
// gateway's container does. Errors are also in the log.
func gatewayCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "gateway",
		Short: "Serve an installation's deployments by a process of their own (docs/gateway-process.md)",
		Args:  commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return container.Serve(cmd.Context(), gateway.ProcessService, gateway.OpenProcess)
		},
	}
	c.Long = c.Short + ".\n\nThe installation is one over a DynamoDB table and an S3 bucket, in AWS or elsewhere: the " +
		"files of `gatewright serve` are of one process.\n" +
		"AWS_REGION says where it is, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are the credentials outside of ECS.\n\n" +
		product.SettingsHelp(isGatewaySetting)
	return c
}

// isGatewaySetting reports whether the gateway process reads a setting. It also changes the setting's texts for the
// help.
func isGatewaySetting(s *config.Setting) bool {
	const required = "needed"
	switch s.Name {
	case config.VarTable, config.VarBucket, config.VarDeploymentURL:
		s.Default = required
	case config.VarKeyFile, config.VarKMSKey:
		s.Default = "one of the two is needed"
	case config.VarTLSCertificate, config.VarTLSKey, config.VarRelay, config.VarUnderscores, config.VarLimits:
	case config.VarPrivateUpstreams:
		s.Default = "false"
	case config.VarDynamoDBEndpoint, config.VarS3Endpoint:
		s.Default = "that of AWS"
	case config.VarTLSAddr:
		s.Range, s.Default = "host:port", fmt.Sprintf(":%d", gateway.ProcessService.Port.Listen)
	case config.VarGatewayAddr:
		s.Description, s.Default = "where deployments are served by plain HTTP", ""
	case config.VarConnectionsPerAddress:
		s.Default = "no bound; 1000 with the PROXY protocol"
	default:
		return s.Kind == config.Process || s.Kind == config.Listening
	}
	return true
}

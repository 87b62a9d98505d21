package commands

import "github.com/spf13/cobra"

// This file has the resources for custom domains, certificates and tunnels.

// hostnameParam is the argument that names a custom domain.
var hostnameParam = positional("hostname", "HOSTNAME", "api.example.com")

func domainResource() resource {
	hostname := hostnameParam
	deployment := parameter{argument: "deploymentName", flag: "deployment", help: "the deployment that it leads to"}
	isDefault := parameter{
		argument: "isDefault", flag: "default", kind: asBool,
		help: "whether it is the one that is served, of several that the domain leads to",
	}
	return resource{
		name: "domain", suggestFor: []string{"domains", "custom-domain", "custom-domains", "hostname"},
		short: "Hostnames of yours at which deployments are served", customCommands: func(a *App) []*cobra.Command {
			return []*cobra.Command{a.domainVerifyCommand()}
		},
		verbs: []verb{
			{
				name: "list", short: "List the custom domains", operation: "CustomDomainsService_list",
				columns: columns{"hostname", "status", "projectName", "certificate.status", "createdOn"},
				empty:   "There are none: `gatewright domain create` makes one.",
			},
			{
				name: "get", short: "Show a custom domain, with the DNS records that it needs",
				operation: "CustomDomainsService_read", params: []parameter{hostname}, table: domainTable,
			},
			{
				name: "create", short: "Make a custom domain, and say which DNS records to set",
				operation: "CustomDomainsService_create", table: recordsTable,
				long: "The TXT record proves that the hostname is yours; `gatewright domain verify --wait` waits for it.",
				params: []parameter{hostname, deployment, isDefault, {
					argument: "isAlias", flag: "alias", kind: asBool,
					help: "whether TLS ends at a proxy of yours before the gateway",
				}},
				hint: "set these records in the DNS; `gatewright domain verify HOSTNAME --wait` goes on when they are there",
			},
			{
				name: updateVerb, short: "Have a custom domain lead to another deployment, or to none",
				operation: "CustomDomainsService_update",
				params: []parameter{hostname, parameter{
					argument: "deploymentName", flag: "deployment",
					help: "the deployment that is served there, '' for none", allowEmpty: true,
				}.mandatory("shop-main-1a2b3c4"), isDefault},
			},
			{
				name: "delete", short: "Delete a custom domain", operation: "CustomDomainsService_delete",
				params: []parameter{hostname, deployment},
				deletes: &deletion{
					kind: "custom domain",
					dependents: []dependent{{
						operation: "CustomDomainsService_read", member: "deployments",
						singular: "deployment that is served there", plural: "deployments that are served there",
					}},
				},
			},
		},
		children: []resource{{name: "certificate", short: "The certificate of a custom domain", verbs: []verb{
			{
				name: "upload", short: "Upload the certificate of a custom domain, and its key",
				operation: "CustomDomainsService_uploadCertificate", table: domainTable,
				params: []parameter{hostname, certificateParam, keyFileParam},
			},
			{
				name: "delete", short: "Delete the certificate that was uploaded",
				operation: "CustomDomainsService_deleteCertificate", params: []parameter{hostname},
				deletes: &deletion{kind: "certificate of"},
			},
		}}},
	}
}

var (
	certificateParam = parameter{
		argument: "certificate", flag: "certificate-file", kind: asFile,
		help: "the certificate (PEM), and those between it and its authority",
	}.mandatory("certificate.pem")
	keyFileParam = parameter{
		argument: "key", flag: "key-file", kind: asFile,
		help: "its private key (PEM)",
	}.mandatory("key.pem")
)

func caResource() resource {
	id := positional("id", "ID", "mtlsca_"+exampleID)
	return resource{
		name: "ca", suggestFor: []string{
			"cas", "client-ca", "client-cas", "client-certificate",
			"client-mtls-ca-certificate", "client-mtls-ca-certificates", "authority",
		},
		short: "Authorities that client certificates are of", verbs: []verb{
			{
				name: "list", short: "List the authorities", operation: "ClientMtlsCaCertificatesService_list",
				columns: columns{"id", "name", "certificateInfo.subject", "certificateInfo.validTo"},
				empty:   "There are none: `gatewright ca create` adds one.",
			},
			{
				name: "create", short: "Add an authority", operation: "ClientMtlsCaCertificatesService_create",
				params: []parameter{positional("name", "NAME", "devices"), {
					argument: "certificate", flag: "certificate-file",
					kind: asFile, help: "its certificate (PEM)", required: true, example: "ca.pem",
				}},
			},
			{
				name: "get", short: "Show an authority", operation: "ClientMtlsCaCertificatesService_read",
				params: []parameter{id},
			},
			{
				name: updateVerb, short: "Give an authority another name", operation: "ClientMtlsCaCertificatesService_update",
				params: []parameter{id, parameter{argument: "name", flag: "name", help: "its name"}.mandatory("suppliers")},
			},
			{
				name: "delete", short: "Delete an authority: certificates of it are refused from then on",
				operation: "ClientMtlsCaCertificatesService_delete", params: []parameter{id},
				deletes: &deletion{kind: "authority"},
			},
		},
	}
}

func certificateResource() resource {
	id := positional("mtlsCertificateId", "ID", "cert_"+exampleID)
	environmentsParam := parameter{
		argument: "environments", flag: "environment", kind: asList,
		help: "a kind of environment that uses it, production, preview or development",
	}.mandatory("production")
	return resource{
		name: "certificate", suggestFor: []string{"cert", "mtls-certificate", "mtls-certificates"},
		short: "Certificates that a project shows its upstreams (mTLS)", verbs: []verb{
			{
				name: "list", short: "List the certificates of a project", operation: "MtlsCertificatesService_list",
				params:  []parameter{projectParam},
				columns: columns{"id", "name", "certificateInfo.subject", "certificateInfo.validTo"},
				empty:   "There are none: `gatewright certificate create` adds one.",
			},
			{
				name: "get", short: "Show a certificate of a project", operation: "MtlsCertificatesService_read",
				params: []parameter{id, projectParam},
			},
			{
				name: "create", short: "Add a certificate to a project, with its key", operation: "MtlsCertificatesService_create",
				params: []parameter{
					positional("name", "NAME", "orders"), projectParam, certificateParam, keyFileParam,
					environmentsParam,
				},
			},
			{
				name: updateVerb, short: "Say which environments use a certificate", operation: "MtlsCertificatesService_update",
				params: []parameter{id, projectParam, environmentsParam},
			},
			{
				name: "delete", short: "Delete a certificate of a project", operation: "MtlsCertificatesService_delete",
				params: []parameter{id, projectParam}, deletes: &deletion{kind: "certificate"},
			},
		},
	}
}

// rotateHint says what to do if a tunnel's new token could not be shown.
const rotateHint = "`gatewright tunnel rotate-token {tunnelId}` makes another one, and that one opens nothing " +
	"from then on"

// TunnelGroup is the group of commands that contains `gatewright tunnel connect`. The program adds that command itself.
const TunnelGroup = "tunnel"

func tunnelResource() resource {
	tunnel := positional("tunnelId", "TUNNEL_ID", "tnl_"+exampleID)
	return resource{
		name: TunnelGroup, short: "Let an installation's projects call services that another machine reaches",
		verbs: []verb{
			{
				name: "list", short: "List the tunnels", operation: "TunnelService_list", columns: columns{"id", "name"},
				empty: "There are none: `gatewright tunnel create` makes one.",
			},
			{
				name: "get", short: "Show a tunnel", operation: "TunnelService_read", params: []parameter{tunnel},
				showsSecrets: true,
			},
			{
				name: "create", short: "Make a tunnel, and show its token", operation: "TunnelService_create",
				params: []parameter{positional("name", "NAME", "office")}, secretMember: tokenMember, lostHint: rotateHint,
			},
			{
				name: "delete", short: "Delete a tunnel, and wait until its services are gone", operation: "TunnelService_delete",
				params: []parameter{tunnel}, statusOperation: "TunnelService_getProvisioningStatus",
				deletes: &deletion{
					kind: "tunnel",
					dependents: []dependent{{
						operation: "TunneledServicesService_getServiceConfiguration", member: "services",
						singular: "service", plural: "services",
					}},
				},
			},
			{
				name: "rotate-token", short: "Make another token of a tunnel: the one before opens nothing from then on",
				operation: "TunnelService_update", params: []parameter{tunnel}, secretMember: tokenMember, lostHint: rotateHint,
			},
		},
		children: []resource{{name: "services", short: "The services behind a tunnel, and who may call them", verbs: []verb{
			{
				name: "get", short: "Show the services behind a tunnel",
				operation: "TunneledServicesService_getServiceConfiguration", params: []parameter{tunnel}, table: servicesTable,
			},
			{
				name: "put", short: "Say which services are behind a tunnel, and wait until it holds",
				operation: "TunneledServicesService_putServiceConfiguration",
				long: "--body has all services, as `gatewright tunnel services get --output json` writes them: those " +
					"that it leaves out go.",
				statusOperation: "TunneledServicesService_getProvisioningStatus", hasBodyFlag: true,
				params: []parameter{
					tunnel,
					{
						argument: "services", flag: "services", kind: asJSON, help: "all services", required: true,
						example: `'[{"name":"stock","endpoint":"http://localhost:8080","configurations":[]}]'`,
					},
					{
						argument: "version", flag: "format-version", kind: asNumber, help: "the version of the format, which is 1",
						required: true, example: "1",
					},
				},
			},
		}}},
	}
}

package commands

import "github.com/spf13/cobra"

// Domains, certificates and tunnels.

// hostnameWord names a custom domain.
var hostnameWord = word("hostname", "HOSTNAME", "api.example.com")

func domainNoun() noun {
	hostname := hostnameWord
	deployment := given{argument: "deploymentName", flag: "deployment", text: "the deployment that it leads to"}
	byDefault := given{argument: "isDefault", flag: "default", kind: asBool, text: "whether it is the one that is served, of several that the domain leads to"}
	return noun{
		name: "domain", also: []string{"domains", "custom-domain", "custom-domains", "hostname"}, short: "Hostnames of yours at which deployments are served", own: func(a *App) []*cobra.Command { return []*cobra.Command{a.domainVerifyCommand()} },
		verbs: []verb{
			{
				name: "list", short: "List the custom domains", operation: "CustomDomainsService_list", shown: columns{"hostname", "status", "projectName", "certificate.status", "createdOn"},
				empty: "There are none: `gatewright domain create` makes one.",
			},
			{name: "get", short: "Show a custom domain, with the DNS records that it needs", operation: "CustomDomainsService_read", takes: []given{hostname}, table: domainTable},
			{
				name: "create", short: "Make a custom domain, and say which DNS records to set", operation: "CustomDomainsService_create", table: recordsTable,
				long:  "The TXT record proves that the hostname is yours; `gatewright domain verify --wait` waits for it.",
				takes: []given{hostname, deployment, byDefault, {argument: "isAlias", flag: "alias", kind: asBool, text: "whether TLS ends at a proxy of yours before the gateway"}},
				then:  "set these records in the DNS; `gatewright domain verify HOSTNAME --wait` goes on when they are there",
			},
			{
				name: updateVerb, short: "Have a custom domain lead to another deployment, or to none", operation: "CustomDomainsService_update",
				takes: []given{hostname, given{argument: "deploymentName", flag: "deployment", text: "the deployment that is served there, '' for none", emptied: true}.must("shop-main-1a2b3c4"), byDefault},
			},
			{
				name: "delete", short: "Delete a custom domain", operation: "CustomDomainsService_delete", takes: []given{hostname, deployment},
				removes: &removal{what: "custom domain", below: []counted{{operation: "CustomDomainsService_read", member: "deployments", one: "deployment that is served there", more: "deployments that are served there"}}},
			},
		},
		below: []noun{{name: "certificate", short: "The certificate of a custom domain", verbs: []verb{
			{
				name: "upload", short: "Upload the certificate of a custom domain, and its key", operation: "CustomDomainsService_uploadCertificate", table: domainTable,
				takes: []given{hostname, certificateGiven, keyFile},
			},
			{
				name: "delete", short: "Delete the certificate that was uploaded", operation: "CustomDomainsService_deleteCertificate", takes: []given{hostname},
				removes: &removal{what: "certificate of"},
			},
		}}},
	}
}

var (
	certificateGiven = given{argument: "certificate", flag: "certificate-file", kind: asFile, text: "the certificate (PEM), and those between it and its authority"}.must("certificate.pem")
	keyFile          = given{argument: "key", flag: "key-file", kind: asFile, text: "its private key (PEM)"}.must("key.pem")
)

func caNoun() noun {
	id := word("id", "ID", "mtlsca_"+anID)
	return noun{name: "ca", also: []string{"cas", "client-ca", "client-cas", "client-certificate", "client-mtls-ca-certificate", "client-mtls-ca-certificates", "authority"}, short: "Authorities that client certificates are of", verbs: []verb{
		{
			name: "list", short: "List the authorities", operation: "ClientMtlsCaCertificatesService_list",
			shown: columns{"id", "name", "certificateInfo.subject", "certificateInfo.validTo"}, empty: "There are none: `gatewright ca create` adds one.",
		},
		{
			name: "create", short: "Add an authority", operation: "ClientMtlsCaCertificatesService_create",
			takes: []given{word("name", "NAME", "devices"), {argument: "certificate", flag: "certificate-file", kind: asFile, text: "its certificate (PEM)", required: true, sample: "ca.pem"}},
		},
		{name: "get", short: "Show an authority", operation: "ClientMtlsCaCertificatesService_read", takes: []given{id}},
		{name: updateVerb, short: "Give an authority another name", operation: "ClientMtlsCaCertificatesService_update", takes: []given{id, given{argument: "name", flag: "name", text: "its name"}.must("suppliers")}},
		{name: "delete", short: "Delete an authority: certificates of it are refused from then on", operation: "ClientMtlsCaCertificatesService_delete", takes: []given{id}, removes: &removal{what: "authority"}},
	}}
}

func certificateNoun() noun {
	id := word("mtlsCertificateId", "ID", "cert_"+anID)
	where := given{argument: "environments", flag: "environment", kind: asList, text: "a kind of environment that uses it, production, preview or development"}.must("production")
	return noun{name: "certificate", also: []string{"cert", "mtls-certificate", "mtls-certificates"}, short: "Certificates that a project shows its upstreams (mTLS)", verbs: []verb{
		{
			name: "list", short: "List the certificates of a project", operation: "MtlsCertificatesService_list", takes: []given{ofProject},
			shown: columns{"id", "name", "certificateInfo.subject", "certificateInfo.validTo"}, empty: "There are none: `gatewright certificate create` adds one.",
		},
		{name: "get", short: "Show a certificate of a project", operation: "MtlsCertificatesService_read", takes: []given{id, ofProject}},
		{
			name: "create", short: "Add a certificate to a project, with its key", operation: "MtlsCertificatesService_create",
			takes: []given{word("name", "NAME", "orders"), ofProject, certificateGiven, keyFile, where},
		},
		{name: updateVerb, short: "Say which environments use a certificate", operation: "MtlsCertificatesService_update", takes: []given{id, ofProject, where}},
		{name: "delete", short: "Delete a certificate of a project", operation: "MtlsCertificatesService_delete", takes: []given{id, ofProject}, removes: &removal{what: "certificate"}},
	}}
}

// rotatedAgain is what to do about a tunnel's token that nobody has seen.
const rotatedAgain = "`gatewright tunnel rotate-token {tunnelId}` makes another one, and that one opens nothing from then on"

// TunnelGroup is the group of commands that `gatewright tunnel connect` is one of, which is the program's own.
const TunnelGroup = "tunnel"

func tunnelNoun() noun {
	tunnel := word("tunnelId", "TUNNEL_ID", "tnl_"+anID)
	return noun{
		name: TunnelGroup, short: "Let an installation's projects call services that another machine reaches",
		verbs: []verb{
			{name: "list", short: "List the tunnels", operation: "TunnelService_list", shown: columns{"id", "name"}, empty: "There are none: `gatewright tunnel create` makes one."},
			{name: "get", short: "Show a tunnel", operation: "TunnelService_read", takes: []given{tunnel}, secret: true},
			{name: "create", short: "Make a tunnel, and show its token", operation: "TunnelService_create", takes: []given{word("name", "NAME", "office")}, made: tokenMember, lost: rotatedAgain},
			{
				name: "delete", short: "Delete a tunnel, and wait until its services are gone", operation: "TunnelService_delete", takes: []given{tunnel}, awaits: "TunnelService_getProvisioningStatus",
				removes: &removal{what: "tunnel", below: []counted{{operation: "TunneledServicesService_getServiceConfiguration", member: "services", one: "service", more: "services"}}},
			},
			{
				name: "rotate-token", short: "Make another token of a tunnel: the one before opens nothing from then on", operation: "TunnelService_update", takes: []given{tunnel}, made: tokenMember, lost: rotatedAgain,
			},
		},
		below: []noun{{name: "services", short: "The services behind a tunnel, and who may call them", verbs: []verb{
			{name: "get", short: "Show the services behind a tunnel", operation: "TunneledServicesService_getServiceConfiguration", takes: []given{tunnel}, table: servicesTable},
			{
				name: "put", short: "Say which services are behind a tunnel, and wait until it holds", operation: "TunneledServicesService_putServiceConfiguration",
				long:   "--body has all services, as `gatewright tunnel services get --output json` writes them: those that it leaves out go.",
				awaits: "TunneledServicesService_getProvisioningStatus", body: true,
				takes: []given{
					tunnel,
					{argument: "services", flag: "services", kind: asJSON, text: "all services", required: true, sample: `'[{"name":"stock","endpoint":"http://localhost:8080","configurations":[]}]'`},
					{argument: "version", flag: "format-version", kind: asNumber, text: "the version of the format, which is 1", required: true, sample: "1"},
				},
			},
		}}},
	}
}

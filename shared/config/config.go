// Package config reads the settings of a process from its environment: where
// its table, bucket and key are, and under which addresses it is reached. The
// Lambda mains and the local process fill the same Config, so that what runs in
// one runs in the other: config → store → group → lambda.Start.
//
// What it is not: it opens nothing and imports no AWS SDK (package store and
// package blob speak to AWS), and it holds no secret: a key is named by the
// file or the key service that has it, never by its text.
//
// Read config.go first, then settings.go, which lists every variable. They are those
// of design, section 9, and the infrastructure sets the same ones.
package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/origin"
)

// The variables. Names of resources have no default: a wrong guess would write
// into another installation.
const (
	VarTable            = "GATEWRIGHT_TABLE"
	VarBucket           = "GATEWRIGHT_BUCKET"
	VarKeyFile          = "GATEWRIGHT_KEY_FILE"
	VarKMSKey           = "GATEWRIGHT_KMS_KEY"
	VarDeploymentURL    = "GATEWRIGHT_DEPLOYMENT_URL"
	VarDynamoDBEndpoint = "GATEWRIGHT_DYNAMODB_ENDPOINT"
	VarS3Endpoint       = "GATEWRIGHT_S3_ENDPOINT"
	VarS3PublicEndpoint = "GATEWRIGHT_S3_PUBLIC_ENDPOINT"
	VarAPIDomain        = "GATEWRIGHT_API_DOMAIN"
	VarAPIURL           = "GATEWRIGHT_API_URL"
	VarOrigins          = "GATEWRIGHT_ORIGINS"
	VarDNSRecords       = "GATEWRIGHT_DNS_RECORDS"
	VarACMEDirectory    = "GATEWRIGHT_ACME_DIRECTORY"
	VarPrivateUpstreams = "GATEWRIGHT_PRIVATE_UPSTREAMS"
	VarDecodedPaths     = "GATEWRIGHT_DECODED_PATHS"
	VarStreaming        = "GATEWRIGHT_STREAMING"
	VarUnderscores      = "GATEWRIGHT_HEADER_UNDERSCORES"
	VarRelay            = "GATEWRIGHT_RELAY"
	VarDocsWeights      = "GATEWRIGHT_DOCS_WEIGHTS"
	VarDocsEmbeddings   = "GATEWRIGHT_DOCS_EMBEDDINGS"
	VarDocsAnswers      = "GATEWRIGHT_DOCS_ANSWERS"
	VarDocsAnswersADay  = "GATEWRIGHT_DOCS_ANSWERS_A_DAY"
	VarBedrockEndpoint  = "GATEWRIGHT_BEDROCK_ENDPOINT"
	VarLimits           = "GATEWRIGHT_LIMITS"
)

// VarRelayCertificate has the relay's certificate chain and private key, as PEM. It is
// no part of a Config, which holds no secret.
const VarRelayCertificate = "GATEWRIGHT_RELAY_CERTIFICATE"

// VarCertificate has the certificate chain and the private key, as PEM, that a gateway in a
// process of its own serves deployments' own names by. Like the relay's it is no part of a
// Config.
const VarCertificate = "GATEWRIGHT_CERTIFICATE"

// VarUsesFile names a file to which a function appends what it asks of AWS, for
// the test that compares that with its role. It is no part of a Config.
const VarUsesFile = "GATEWRIGHT_USES_FILE"

// placeholder stands for a deployment's name in DeploymentURL.
const placeholder = "{deployment}"

// Config is an installation as one of its processes sees it.
type Config struct {
	// Table and Bucket are the names of the DynamoDB table and the S3 bucket.
	Table  string
	Bucket string
	// KeyFile is the path of the root key on this machine, KMSKey the id of the
	// KMS key that wraps it; exactly one is set.
	KeyFile string
	KMSKey  string
	// DeploymentURL is the public origin of a deployment with {deployment} in
	// place of its name, such as http://{deployment}.localhost:9001.
	DeploymentURL string
	// DNSRecords is a file of records that are asked before the DNS is (package zone),
	// "" for none: for a laptop, never for a shared installation.
	DNSRecords string
	// ACMEDirectory is the address of an ACME directory, of the authority that custom domains'
	// certificates are obtained from, "" for none.
	ACMEDirectory string
	// APIDomain is the management API's own domain name, "" for none.
	APIDomain string
	// APIURL is the public address of the management API, without a slash at the end, such as
	// https://api.example.com or one with a path; "" where the process does not know it. What
	// names addresses of the API takes this one, and never what a request says of itself.
	APIURL string
	// Origins are those of pages that may call the MCP server of the management API beside its own,
	// such as https://inspector.example.com.
	Origins []string
	// DynamoDBEndpoint and S3Endpoint are base addresses of emulators, "" for
	// AWS. S3PublicEndpoint is the one under which clients reach S3, "" for the
	// same.
	DynamoDBEndpoint string
	S3Endpoint       string
	S3PublicEndpoint string
	// PrivateUpstreams allows the gateway to call loopback and private addresses,
	// but no link-local ones: for a laptop, never for a shared installation.
	PrivateUpstreams bool
	// DecodedPaths is for functions behind an emulator that decodes the paths
	// of requests, where API Gateway passes them on as they were written.
	DecodedPaths bool
	// Streaming has the gateway's function answer as a stream, which API Gateway
	// has to be set up for.
	Streaming bool
	// Relay is the public origin of the relay, which agents of tunnels connect to and
	// through which a gateway in another process asks the services behind them, such as
	// https://relay.example.com; "" where there is none.
	Relay string
	// DocsWeights is the file of weights by which the documentation is searched, "" for the one near the binary (functions/mcpdocs).
	DocsWeights string
	// DocsEmbeddings and DocsAnswers are models of Bedrock by which the documentation is searched and questions are answered
	// (functions/mcpdocs), "" for none. DocsAnswersADay is how many questions of a day one process puts to the latter.
	DocsEmbeddings, DocsAnswers string
	DocsAnswersADay             int
	// BedrockEndpoint is the base address of an emulator, "" for AWS.
	BedrockEndpoint string
	// HeaderUnderscores lets header fields whose names have "_" pass to upstreams,
	// which may take them for fields of the gateway's.
	HeaderUnderscores bool
	// HeaderBytes and HeaderFields bound a request's header where no listener of ours
	// has (Listener has the same), 0 for the gateway's own bounds.
	HeaderBytes, HeaderFields int
	// StandardHTTP makes a gateway send every request through http.Transport (Listener has the same).
	StandardHTTP bool
	// TrustedProxies are those whose forwarding headers a gateway believes (Listener has the
	// same).
	TrustedProxies []netip.Prefix
	// Limits are what bounds each account that has no limit of its own, nil for the defaults.
	Limits limits.Values
}

// FromEnvironment reads a Config by getenv (os.Getenv outside tests). Its error
// names every variable at fault and never a value.
func FromEnvironment(getenv func(string) string) (Config, error) {
	c := Config{
		Table:            getenv(VarTable),
		Bucket:           getenv(VarBucket),
		KeyFile:          getenv(VarKeyFile),
		KMSKey:           getenv(VarKMSKey),
		DeploymentURL:    getenv(VarDeploymentURL),
		APIDomain:        getenv(VarAPIDomain),
		APIURL:           strings.TrimSuffix(getenv(VarAPIURL), "/"),
		Origins:          strings.Fields(getenv(VarOrigins)),
		ACMEDirectory:    getenv(VarACMEDirectory),
		DNSRecords:       getenv(VarDNSRecords),
		DynamoDBEndpoint: getenv(VarDynamoDBEndpoint),
		S3Endpoint:       getenv(VarS3Endpoint),
		S3PublicEndpoint: getenv(VarS3PublicEndpoint),
		Relay:            getenv(VarRelay),
		DocsWeights:      getenv(VarDocsWeights),
		DocsEmbeddings:   getenv(VarDocsEmbeddings),
		DocsAnswers:      getenv(VarDocsAnswers),
		DocsAnswersADay:  DefaultDocsAnswersADay,
		BedrockEndpoint:  getenv(VarBedrockEndpoint),
	}
	var wrong []error
	if text := getenv(VarDocsAnswersADay); text != "" {
		n, err := strconv.Atoi(text)
		if c.DocsAnswersADay = n; err != nil || !IsDocsAnswersADay(n) {
			wrong = append(wrong, fmt.Errorf("%s is no number from 1 to %d", VarDocsAnswersADay, mostDocsAnswersADay))
		}
	}
	var err error
	if c.Limits, err = limits.Parse(getenv(VarLimits)); err != nil {
		wrong = append(wrong, fmt.Errorf("%s: %w", VarLimits, err))
	}
	for _, v := range []struct {
		name string
		to   *bool
	}{{VarPrivateUpstreams, &c.PrivateUpstreams}, {VarDecodedPaths, &c.DecodedPaths}, {VarStreaming, &c.Streaming}, {VarUnderscores, &c.HeaderUnderscores}} {
		switch getenv(v.name) {
		case "", "false":
		case "true":
			*v.to = true
		default:
			wrong = append(wrong, fmt.Errorf("%s is neither true nor false", v.name))
		}
	}
	listener, err := ListenerFromEnvironment(getenv)
	c.HeaderBytes, c.HeaderFields, c.TrustedProxies, c.StandardHTTP = listener.HeaderBytes, listener.HeaderFields, listener.TrustedProxies, listener.StandardHTTP
	return c, errors.Join(append(wrong, err, c.Validate())...)
}

// Validate returns everything that is wrong with c.
func (c Config) Validate() error {
	var wrong []error
	for _, v := range []struct{ name, value string }{
		{VarTable, c.Table}, {VarBucket, c.Bucket}, {VarDeploymentURL, c.DeploymentURL},
	} {
		if v.value == "" {
			wrong = append(wrong, fmt.Errorf("%s is not set", v.name))
		}
	}
	if (c.KeyFile == "") == (c.KMSKey == "") {
		wrong = append(wrong, fmt.Errorf("exactly one of %s and %s has to be set", VarKeyFile, VarKMSKey))
	}
	if c.DeploymentURL != "" && !origin.Is(c.DeploymentOrigin("name")) || strings.Count(c.DeploymentURL, placeholder) > 1 {
		wrong = append(wrong, fmt.Errorf("%s is no address such as http://%s.example.com", VarDeploymentURL, placeholder))
	}
	for _, v := range []struct{ name, value string }{
		{VarDynamoDBEndpoint, c.DynamoDBEndpoint}, {VarS3Endpoint, c.S3Endpoint}, {VarS3PublicEndpoint, c.S3PublicEndpoint}, {VarBedrockEndpoint, c.BedrockEndpoint},
	} {
		if v.value != "" && !origin.Is(strings.TrimSuffix(v.value, "/")) {
			wrong = append(wrong, fmt.Errorf("%s is no address such as http://127.0.0.1:8000", v.name))
		}
	}
	if c.APIURL != "" && !IsBase(c.APIURL) {
		wrong = append(wrong, fmt.Errorf("%s is no address such as https://api.example.com", VarAPIURL))
	}
	if slices.ContainsFunc(c.Origins, func(o string) bool { return !origin.Is(o) }) {
		wrong = append(wrong, fmt.Errorf("%s has one that is no origin such as https://inspector.example.com; write them with spaces between", VarOrigins))
	}
	if c.DocsEmbeddings != "" && !IsEmbeddingModel(c.DocsEmbeddings) {
		wrong = append(wrong, fmt.Errorf("%s is none of %s", VarDocsEmbeddings, strings.Join(EmbeddingModels(), ", ")))
	}
	if c.DocsAnswers != "" && !IsModel(c.DocsAnswers) {
		wrong = append(wrong, fmt.Errorf("%s is no model's id such as amazon.nova-lite-v1:0", VarDocsAnswers))
	}
	if c.Relay != "" && !origin.Is(c.Relay) {
		wrong = append(wrong, fmt.Errorf("%s is no address such as https://relay.example.com", VarRelay))
	}
	if u, err := url.Parse(c.ACMEDirectory); c.ACMEDirectory != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil) {
		wrong = append(wrong, fmt.Errorf("%s is no address such as https://acme.example.com/directory", VarACMEDirectory))
	}
	return errors.Join(wrong...)
}

// IsBase reports whether text is an origin, or one with a path that does not end in a slash.
func IsBase(text string) bool {
	u, err := url.Parse(text)
	if err != nil || strings.HasSuffix(u.Path, "/") || strings.ContainsAny(text, "?#{} ") {
		return false
	}
	u.Path, u.RawPath = "", ""
	return origin.Is(u.String())
}

// DeploymentOrigin is the public origin of a deployment, as its `url`.
func (c Config) DeploymentOrigin(deployment string) string {
	return strings.ReplaceAll(c.DeploymentURL, placeholder, deployment)
}

// DeploymentDomain is what follows a deployment's name and a dot in its host
// name, in lower case and without a port.
func (c Config) DeploymentDomain() string {
	pattern, err := url.Parse(c.DeploymentOrigin("name"))
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(pattern.Hostname(), "name."))
}

// OwnDomains are the domains, in lower case, whose names are the installation's own, and
// nobody's custom domains.
func (c Config) OwnDomains() []string {
	own := []string{c.DeploymentDomain(), strings.ToLower(c.APIDomain)}
	return slices.DeleteFunc(own, func(d string) bool { return d == "" })
}

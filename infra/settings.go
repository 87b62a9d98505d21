package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/base/origin"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/limits"
)

// Settings are the differences between installations. A field with a JSON name is a setting of a stage's file
// (infra/stages) and of the CDK's context (`-c name=value`). Its tags are the only declaration of a setting: the file's
// schema, the table in docs/aws.md, the validation and the defaults are derived from them. Settings with
// `only:"context"` select the stage and its folders, or are for emulators and tests. A file cannot have them.
type Settings struct {
	// Stage names the installation, such as dev or production.
	Stage string `json:"stage" only:"context" default:"dev" named:"stage"`
	// Protected turns on termination protection for the stacks and deletion protection for the table. If a stack is
	// deleted nevertheless, the table, the bucket, the KMS key of the root key and the logs are kept.
	Protected bool `json:"protected" default:"true" doc:"the stack and the table cannot be deleted, and table, bucket, key and logs stay when the stack goes; an installation to try things with says false"`
	// Table is the kind of the table: single, or global, which can have replicas in other regions later. AWS cannot
	// change the kind later.
	Table string `json:"table" default:"single" enum:"single,global" doc:"the kind of the table, for ever: single is of one region, global takes replicas in others later, and costs the same without any"`
	// MultiRegionKey creates a KMS key that can have replicas in other regions. AWS cannot change an existing key.
	MultiRegionKey bool `json:"multiRegionKey" default:"false" doc:"whether the key that wraps the root key takes replicas in other regions, for ever; it costs the same without any"`
	// If the installation uses a table that was restored outside of the stack, TableStream is the ARN of the table's
	// stream. It is "" if the stack creates the table.
	TableStream string `json:"tableStream" pattern:"^(arn:aws[a-z-]*:dynamodb:[a-z0-9-]+:[0-9]{12}:table/([A-Za-z0-9_.-]{3,255}))/stream/[0-9T:.-]+$" is:"is the ARN of a restored table's stream, as make restore-aws prints it: arn:aws:dynamodb:REGION:ACCOUNT:table/NAME/stream/TIME" doc:"the ARN of the stream of a table that was [restored](#restore), with which the installation goes on in place of the stack's own"`
	// GatewayDomain and APIDomain are the domain names of the gateway and of the management API, or "" for the
	// addresses of API Gateway. Deployments are served at <deployment>.GatewayDomain.
	GatewayDomain string `json:"gatewayDomain" pattern:"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$" is:"is a name such as apis.example.com, in lower case" doc:"what follows a deployment's name: deployments are told apart by their host names"`
	// GatewayURL is the origin of deployments, with {deployment} in place of the name. The default is derived from
	// GatewayDomain.
	GatewayURL string `json:"gatewayUrl" pattern:"^https?://\\{deployment\\}(\\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)+(:[0-9]{1,5})?$" is:"is an origin with {deployment} for a first label, such as https://{deployment}.apis.example.com" doc:"the origin of deployments with {deployment} in it, where another name than gatewayDomain leads to them"`
	APIDomain  string `json:"apiDomain" pattern:"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$" is:"is a name such as api.example.com, in lower case" without:"the platform's" doc:"the management API's name"`
	// APIURL is the management API's public address, which the cards of its MCP servers contain. The default is
	// https:// and APIDomain, or else the address of API Gateway. Set APIURL if a proxy is in front of the API.
	APIURL string `json:"apiUrl" without:"https:// and apiDomain, else the platform's" doc:"the public address of the management API, as [cards of its MCP servers](api.md#found-by-mcp-clients) name it, where something else stands before it"`
	// Origins are the additional origins whose pages can call the management API's MCP server.
	Origins []string `json:"origins" maxItems:"50" doc:"origins, with spaces between in the context, whose pages [may call the API's MCP server](mcp-api.md#from-a-browser)"`
	// DocsEmbeddings and DocsAnswers are the ids of two Bedrock models. The first is for searching the documentation,
	// the second for answering questions about it. "" means no model. DocsAnswersADay is the maximum number of
	// questions per day and process.
	DocsEmbeddings  string `json:"docsEmbeddings" doc:"a model of Bedrock by which [the documentation is searched](mcp-docs.md#with-models-of-bedrock), by its id"`
	DocsAnswers     string `json:"docsAnswers" doc:"one by which questions about it are answered"`
	DocsAnswersADay int    `json:"docsAnswersADay" default:"200" minimum:"1" maximum:"100000" doc:"how many questions of a day each process puts to the latter"`
	// CertificateARN is the ARN of a certificate for APIDomain and for *.GatewayDomain.
	CertificateARN string `json:"certificateArn" pattern:"^arn:[a-z-]+:acm:[a-z0-9-]+:[0-9]{12}:certificate/[^\\s${}]+$" is:"is the ARN of a certificate of ACM, such as arn:aws:acm:REGION:ACCOUNT:certificate/ID" doc:"a certificate for these names, by its ARN"`
	// RelayDomain is the domain name of the relay to which agents of tunnels connect. "" means that the
	// installation has no relay: a relay costs about 46 dollars a month even without traffic (docs/cost.md).
	RelayDomain string `json:"relayDomain" pattern:"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$" is:"is a name such as relay.example.com, in lower case" doc:"the name of [a relay for tunnels](#a-relay-for-tunnels); without it there is none, since it costs money while nobody asks it"`
	// RelayMemoryMB and GatewayTaskMemoryMB are the memory of each task in megabytes. Each megabyte comes with half a
	// CPU unit, and a processor has 1024 units.
	RelayMemoryMB int `json:"relayMemory" default:"512" enum:"512,1024,2048,4096,8192" doc:"megabytes of each relay; processors come with them: a quarter of one with 512"`
	// Gateway says what serves deployments: the function behind an API, processes behind a load balancer, or both. With
	// both, the operator can move clients from one to the other. Processes cost money even without traffic.
	Gateway string `json:"gateway" default:"lambda" enum:"lambda,container,both" doc:"what serves deployments: a function behind API Gateway, [processes](#gateways-as-processes) behind a load balancer, or both; processes cost money while nobody asks them"`
	// GatewayTasks and GatewayTasksMost are the minimum and the maximum number of gateways as processes. The number
	// follows the load. The limit of 50 bounds the cost of a mistyped number: ECS would accept 1,000 tasks in a
	// service.
	GatewayTasks        int `json:"gatewayTasks" default:"2" minimum:"1" maximum:"50" doc:"the fewest [gateways that run as processes](#gateways-as-processes)"`
	GatewayTasksMost    int `json:"gatewayTasksMost" default:"10" minimum:"1" maximum:"50" doc:"the most of them: as many run as their processors ask for"`
	GatewayTaskMemoryMB int `json:"gatewayTaskMemory" default:"1024" enum:"512,1024,2048,4096,8192" doc:"megabytes of each of them; processors come with them: half of one with 1024"`
	// VPC is the id of the operator's network for gateways as processes, or "" for a new network. Subnets are the
	// subnets of the tasks. BalancerSubnets are the subnets of the load balancer. If BalancerSubnets is nil, the load
	// balancer is in Subnets too, which must be public.
	VPC             string   `json:"vpc" pattern:"^vpc-[0-9a-f]{8,17}$" is:"is the id of a VPC, such as vpc-0123456789abcdef0" doc:"[your network](#upstreams-in-your-vpc) in which gateways run as processes; without it they have one of their own"`
	Subnets         []string `json:"subnets" maxItems:"16" doc:"where they run in it, two or more by their ids, with spaces between in the context: public ones, or private ones with a way out, with balancerSubnets"`
	BalancerSubnets []string `json:"balancerSubnets" maxItems:"16" doc:"public subnets of it for the load balancer, where the others are private"`
	// HostedZone is the id of the Route 53 zone where the installation creates the records for GatewayDomain. It is
	// "" if the owner of the zone creates them. GatewayContainerWeight is the percentage of clients that the records
	// send to processes if the function serves deployments too.
	HostedZone             string `json:"hostedZone" pattern:"^Z[A-Z0-9]{1,31}$" is:"is the id of a hosted zone of Route 53, such as Z0123456789ABCDEFGHIJ" doc:"the zone of Route 53, by its id, in which [names of deployments](#lead-the-names) are led to what serves them; without it you lead them"`
	GatewayContainerWeight int    `json:"gatewayContainerWeight" default:"0" minimum:"0" maximum:"100" doc:"how many of a hundred clients the zone leads to processes, with gateway both"`
	// MemoryMB is the memory of each function in megabytes. Gateway and builder have their own settings: the default of
	// the builder comes with a whole processor. ComputeMemoryMB is for functions that compute (api.Group.CPUBound): its
	// default comes with three fifths of a processor.
	MemoryMB        int `json:"memory" default:"256" minimum:"128" maximum:"10240" doc:"megabytes of each function; processors come with them"`
	GatewayMemoryMB int `json:"gatewayMemory" default:"512" minimum:"128" maximum:"10240" doc:"megabytes of the gateway's"`
	BuilderMemoryMB int `json:"builderMemory" default:"1769" minimum:"128" maximum:"10240" doc:"megabytes of those that build"`
	ComputeMemoryMB int `json:"computeMemory" default:"1024" minimum:"128" maximum:"10240" doc:"megabytes of [the documentation's search](mcp-docs.md)"`
	// LogDays is the number of days for which logs are kept. CloudWatch Logs accepts only certain numbers.
	LogDays int `json:"logDays" default:"30" enum:"1,3,5,7,14,30,60,90,120,150,180,365,400,545,731" doc:"how many days logs are kept"`
	// Canary directs only a tenth of the calls to a new version of a function first, and a tenth of the new connections
	// to new gateway tasks. If an alarm rings, the release is rolled back. Without Canary, new versions and tasks get
	// everything at once.
	Canary bool `json:"canary" default:"true" doc:"has another version of a function take a tenth of its calls first, and none where an alarm is on, and [other tasks of gateways](#gateways-as-processes) a tenth of the connections; false releases at once, functions whatever alarms say"`
	// WAF creates a web ACL for the management API that limits the request rate of each client address.
	WAF bool `json:"waf" default:"false" doc:"a web ACL before the management API that stops floods from one address"`
	// Concurrency is the number of simultaneous calls that Lambda allows for this installation: the account's quota, or
	// less. With 0, functions reserve no concurrency: a new account can have a quota of 10, and Lambda lets such an
	// account reserve nothing.
	Concurrency int `json:"concurrency" default:"1000" minimum:"0" maximum:"1000000" doc:"how many calls at once Lambda runs for the installation, of which [functions reserve their part](#size); 0 reserves nothing"`
	// APIRate is the number of requests per second that API Gateway accepts for each method of the management API, and
	// APIBurst the number of simultaneous requests beyond that. GatewayRate and GatewayBurst are these numbers for all
	// deployments together. If a rate and its burst are 0, only the account's quota applies. The defaults add up to the
	// default quota of an account: 10,000 per second, and bursts of 5,000.
	APIRate      int `json:"apiRate" default:"1000" minimum:"0" maximum:"1000000" doc:"requests a second that API Gateway takes for each method of the management API, where [its function can answer](#size) as many; 0, of apiBurst too, for the account's quota"`
	APIBurst     int `json:"apiBurst" default:"1000" minimum:"0" maximum:"1000000" doc:"how many of them at once beyond"`
	GatewayRate  int `json:"gatewayRate" default:"9000" minimum:"0" maximum:"1000000" doc:"the same of all deployments together"`
	GatewayBurst int `json:"gatewayBurst" default:"4000" minimum:"0" maximum:"1000000" doc:"the same of all deployments together"`
	// AccessLogs says whether API Gateway logs requests, and who sets the role under which it writes the logs. All APIs
	// of the account and the region share this role.
	AccessLogs string `json:"accessLogs" default:"own" enum:"own,account,none" doc:"[access logs](observability.md#access-logs-of-api-gateway) of API Gateway, which need a role that is set once for an account and a region: with own, the installation sets it; with account, you have set it; with none, there are no access logs"`
	// AlarmTopic is the ARN of an SNS topic that each alarm notifies, or "". It cannot be a .fifo topic, because the
	// message of an alarm has no message group.
	AlarmTopic string `json:"alarmTopic" pattern:"^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$" is:"is the ARN of a standard topic of SNS, such as arn:aws:sns:eu-west-1:123456789012:alarms" doc:"the ARN of a topic of SNS that hears when [an alarm](#alarms) begins and ends"`
	// AlarmEmail is an email address to which a topic of the stack sends the same alarms, or "". The address is
	// personal data: only the stage's file, the templates and the subscription contain it. No error, output or log
	// contains it.
	AlarmEmail string `json:"alarmEmail" personal:"true" pattern:"^[a-z0-9._+-]{1,64}@([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$" is:"is an email address in lower case, such as you@example.com" doc:"an email address that hears when [an alarm](#alarms) begins and ends, once its owner has confirmed the subscription; with alarmTopic, both hear"`
	// CheckRegion is the region of the synthetic check, or "" for no check. CheckTopic is the ARN of an SNS topic in
	// that region that the check's alarms notify, or "". It is a separate setting because alarms can only notify topics
	// of their own region.
	CheckRegion string `json:"checkRegion" pattern:"^[a-z]{2}(-[a-z]+)+-[0-9]{1,2}$" is:"is a region such as eu-central-1" doc:"another region of AWS, from which [a check](#a-check-from-another-region) asks the installation what clients ask it, once a minute; without it there is none"`
	CheckTopic  string `json:"checkTopic" pattern:"^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$" is:"is the ARN of a standard topic of SNS, such as arn:aws:sns:eu-central-1:123456789012:alarms" doc:"the ARN of a topic of SNS in checkRegion that hears when an alarm of the check begins and ends; with alarmEmail, both hear"`
	// MonthlyBudget is the budget of the account per month, in US dollars. The recipients of alarms are notified about
	// it. 0 means no budget.
	MonthlyBudget int `json:"monthlyBudget" default:"0" minimum:"0" maximum:"1000000" doc:"US dollars that the AWS account may cost in a month: alarmEmail and alarmTopic hear when 80 % are spent, and when AWS forecasts more than all of it; 0 for [no budget](#alarms)"`
	// Streaming makes API Gateway stream the gateway's responses, in regions where API Gateway can stream. It is off by
	// default, because no emulator supports streaming (LocalStack 4.14.0, MiniStack 1.5.33) and streaming was never
	// tried in AWS. Make it the default when the scenario suite has passed in AWS with it. Without Streaming, responses
	// over 6 MB, server-sent events and slow downloads need gateways as processes.
	Streaming bool `json:"streaming" default:"false" doc:"passes answers of deployments on as they come, in regions whose API Gateway can: past 6 MB and 29 s, and server-sent events. Not tried in AWS yet"`
	// OTLPEndpoint is the base address of the collector that receives spans, such as
	// https://collector.example.com:4318. "" means no traces.
	OTLPEndpoint string `json:"otlpEndpoint" pattern:"^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?$" is:"is an address such as https://collector.example.com:4318" doc:"a collector that spans are sent to, see [observability](observability.md#traces)"`
	// PrivateUpstreams allows the gateway to call private addresses.
	PrivateUpstreams bool `json:"privateUpstreams" default:"false" doc:"lets projects call private addresses, [which processes in your network reach](#upstreams-in-your-vpc): only when all who deploy are trusted"`
	// HeaderUnderscores forwards header fields with "_" in their names to upstreams.
	HeaderUnderscores bool `json:"headerUnderscores" default:"false" doc:"passes header fields with an underscore in their names on: [why they are dropped](projects.md#handlers)"`
	// StandardHTTP makes the gateway send every request through http.Transport, and makes listeners parse requests only
	// with net/http.
	StandardHTTP bool `json:"standardHttp" default:"false" doc:"the standard library alone reads requests and sends them to upstreams, for [an incident](security.md#if-a-parser-is-at-fault)"`
	// Limits are the limits of each account, in the format of config.VarLimits.
	Limits string `json:"limits" doc:"what bounds each account, as [GATEWRIGHT_LIMITS](limits.md#accounts) has it"`

	// Emulator is "" for AWS, or localstack or ministack. docs/emulators.md lists what an installation in an emulator
	// lacks.
	Emulator string `json:"emulator" only:"context" enum:"localstack,ministack"`
	// RelayURL is the origin of a relay that runs next to an emulator.
	RelayURL string `json:"relayUrl" only:"context"`
	// Architecture is the architecture of the functions: arm64, or x86_64 for emulators.
	Architecture string `json:"architecture" only:"context" default:"arm64" enum:"arm64,x86_64"`
	// Stages is the folder with the files of the stages.
	Stages string `json:"stages" only:"context" default:"infra/stages"`
	// Assets is the folder with a subfolder for each function and service. "" means the folder of make build.
	Assets string `json:"assets" only:"context"`
	// UsesFile is the file where functions of an emulator record their calls of AWS, or "".
	UsesFile string `json:"usesFile" only:"context"`
	// Cron replaces every cron schedule of an emulator's functions, so that a test does not wait for an hour. ""
	// replaces none.
	Cron string `json:"cron" only:"context"`

	// FileDigest is a digest of the settings in the stage's file, or "" if no file was read. A deployment compares it
	// with the digest of the last deployment to find out whether the file has changed.
	FileDigest string `json:"-"`
	// Bounds are the values of the limits that services declare (service.Limit), by the service's name and then by the
	// name of the environment variable.
	Bounds map[string]map[string]string `json:"-"`
}

// These are the values of the setting emulator. Without the setting, the installation is in AWS.
const (
	localStack = "localstack"
	miniStack  = "ministack"
)

// emulators are all values of the setting emulator. "" is for an installation in AWS.
var emulators = []string{"", localStack, miniStack}

// settingsFromContext reads the context without a stage's file. Its error has a line for each problem.
func settingsFromContext(context func(string) any) (Settings, error) {
	values, errs := contextValues(context)
	return newSettings(values, errs)
}

// newSettings creates Settings from values that are valid individually, sets the defaults that depend on other
// settings, and checks the combination of the settings. errs are the errors of invalid values. The returned error
// includes them.
func newSettings(values settingValues, errs []error) (Settings, error) {
	s, err := values.settings()
	if err != nil {
		return s, errors.Join(append(errs, err)...)
	}
	if _, isSet := values["protected"]; !isSet {
		s.Protected = s.Emulator == "" // emulators have no data to keep
	}
	arch := s.goArchitecture()
	s.APIURL = strings.TrimSuffix(s.APIURL, "/")
	if s.Assets == "" {
		s.Assets = filepath.Join("dist", arch)
	}
	if s.APIURL == "" && s.APIDomain != "" {
		s.APIURL = "https://" + s.APIDomain
	}
	if s.GatewayURL == "" && s.GatewayDomain != "" {
		s.GatewayURL = "https://{deployment}." + s.GatewayDomain
	}
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(!s.Streaming || s.Emulator == "", "-c streaming is not for emulators: they take whole answers")
	require(s.AlarmEmail == "" || s.Emulator == "", "-c alarmEmail is not for emulators: they send no mail")
	require(s.MonthlyBudget == 0 || s.Emulator == "", "-c monthlyBudget is not for emulators: they know no costs")
	require(s.MonthlyBudget == 0 || s.AlarmEmail+s.AlarmTopic != "" || s.Emulator != "",
		"-c monthlyBudget notifies nobody without alarmEmail or alarmTopic: add one of them, or leave monthlyBudget out")
	require(s.UsesFile == "" || s.Emulator != "", "-c usesFile is for emulators")
	require(s.Cron == "" || s.Emulator != "", "-c cron is for emulators")
	require(s.RelayURL == "" || s.Emulator != "",
		"-c relayUrl is for emulators: relayDomain gives an installation a relay")
	require(s.RelayDomain == "" || s.Emulator == "",
		"-c relayDomain is not for emulators: relayUrl leads to a relay beside them")
	require((s.APIDomain == "" && (s.GatewayDomain == "" || !s.servedByFunction())) || s.CertificateARN != "",
		"-c certificateArn is needed with apiDomain or gatewayDomain")
	require(!slices.ContainsFunc(s.Origins, func(o string) bool {
		return !origin.Valid(o)
	}), "-c origins are origins such as https://inspector.example.com, with spaces between")
	require(s.DocsEmbeddings == "" || config.IsEmbeddingModel(s.DocsEmbeddings), "-c docsEmbeddings is one of %s",
		strings.Join(config.EmbeddingModels(), ", "))
	require(s.DocsAnswers == "" || config.IsModel(s.DocsAnswers), "-c docsAnswers is the id of a model of Bedrock such "+
		"as amazon.nova-lite-v1:0, or of an inference profile such as eu.amazon.nova-lite-v1:0")
	require(s.Emulator == "" || s.DocsEmbeddings+s.DocsAnswers == "",
		"-c docsEmbeddings and -c docsAnswers are not for emulators: they have no Bedrock")
	require(s.APIURL == "" || config.IsBaseURL(s.APIURL), "-c apiUrl is an address such as https://api.example.com")
	errs = append(errs, s.validateCheck()...)
	_, err = limits.Parse(s.Limits)
	require(err == nil, "-c limits: %w", err)
	require(s.settingBytes() <= maxSettingBytes, "-c origins, -c limits and addresses have %d bytes together, and may "+
		"have %d: Lambda takes 4 KB of environment variables for a function", s.settingBytes(), maxSettingBytes)
	require(s.GatewayURL != "", "-c gatewayDomain=apis.example.com is needed: deployments are told apart by their host "+
		"names (or -c gatewayUrl with {deployment} in it)")
	return s, errors.Join(append(errs,
		dropLinesAbout(errs, errors.Join(s.checkGateway(values), s.readBounds(values), s.checkThrottles())))...)
}

// readBounds reads the limits that services declare, with the same parser as the services. A limit
// of a service that the installation does not have is an error, because it would have no effect.
func (s *Settings) readBounds(values settingValues) error {
	s.Bounds = map[string]map[string]string{}
	var errs []error
	for _, svc := range functions.Services() {
		for _, b := range svc.Limits {
			if values[b.Context] == nil {
				continue
			}
			value := values.text(b.Context)
			if value == "" { // an empty variable counts as not set
				errs = append(errs, fmt.Errorf("-c %s says nothing: say a number, or leave it out", b.Context))
				continue
			}
			_, err := config.ListenerFromEnvironment(func(name string) string {
				return map[string]string{b.Variable: value}[name]
			})
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("-c %s: %w", b.Context, err))
			case !slices.ContainsFunc(serviceSpecs(*s), func(d serviceSpec) bool { return d.Name == svc.Name }):
				errs = append(errs, fmt.Errorf("-c %s is for the service %s, which this context does not have", b.Context,
					svc.Name))
			}
			if s.Bounds[svc.Name] == nil {
				s.Bounds[svc.Name] = map[string]string{}
			}
			s.Bounds[svc.Name][b.Variable] = value
		}
	}
	return errors.Join(errs...)
}

// goArchitecture returns Go's name of the architecture, "" for an unknown one.
func (s Settings) goArchitecture() string {
	return map[string]string{"arm64": "arm64", "x86_64": "amd64"}[s.Architecture]
}

// relay returns the origin of the installation's relay, "" for none.
func (s Settings) relay() string {
	if s.RelayDomain == "" {
		return s.RelayURL
	}
	return "https://" + s.RelayDomain
}

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/origin"
)

// Settings are what differs between installations. A field with a word is a word of a stage's file (infra/stages) and of
// the CDK's context (`-c name=value`): its tags are the one declaration that the file's schema, the table of docs/aws.md, what
// is refused, and what holds without the word follow from. `only:"context"` are words that no file has: those of emulators and tests.
type Settings struct {
	// Stage names the installation, such as dev or production.
	Stage string `json:"stage" only:"context" default:"dev" named:"stage"`
	// Protected installations cannot be deleted, and table, bucket, key and logs outlive their stack.
	Protected bool `json:"protected" default:"true" doc:"the stack and the table cannot be deleted, and table, bucket, key and logs stay when the stack goes; an installation to try things with says false"`
	// Table is the kind of the table's resource, which AWS does not change afterwards: single, of one region, or global, which takes
	// replicas in other regions later.
	Table string `json:"table" default:"single" enum:"single,global" doc:"the kind of the table, for ever: single is of one region, global takes replicas in others later, and costs the same without any"`
	// MultiRegionKey makes the KMS key one that takes replicas in other regions; AWS changes no key into one.
	MultiRegionKey bool `json:"multiRegionKey" default:"false" doc:"whether the key that wraps the root key takes replicas in other regions, for ever; it costs the same without any"`
	// TableStream is the ARN of the stream of a table that was restored beside the stack, which the
	// installation goes on with in place of a table of the stack's own; "" for that one.
	TableStream string `json:"tableStream" pattern:"^(arn:aws[a-z-]*:dynamodb:[a-z0-9-]+:[0-9]{12}:table/([A-Za-z0-9_.-]{3,255}))/stream/[0-9T:.-]+$" is:"is the ARN of a restored table's stream, as make restore-aws prints it: arn:aws:dynamodb:REGION:ACCOUNT:table/NAME/stream/TIME" doc:"the ARN of the stream of a table that was [restored](#restore), with which the installation goes on in place of the stack's own"`
	// GatewayDomain and APIDomain are domain names of this account's certificate, "" for the platform's addresses. Deployments are
	// served at <deployment>.GatewayDomain.
	GatewayDomain string `json:"gatewayDomain" pattern:"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$" is:"is a name such as apis.example.com, in lower case" doc:"what follows a deployment's name: deployments are told apart by their host names"`
	// GatewayURL is the origin of deployments with {deployment} in place of the name; derived from GatewayDomain unless it is given.
	GatewayURL string `json:"gatewayUrl" pattern:"^https?://\\{deployment\\}(\\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)+(:[0-9]{1,5})?$" is:"is an origin with {deployment} for a first label, such as https://{deployment}.apis.example.com" doc:"the origin of deployments with {deployment} in it, where another name than gatewayDomain leads to them"`
	APIDomain  string `json:"apiDomain" pattern:"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$" is:"is a name such as api.example.com, in lower case" without:"the platform's" doc:"the management API's name"`
	// APIURL is the management API's public address, which cards of its MCP servers name; derived from APIDomain, or else the
	// platform's, unless it is given: that of what stands before it.
	APIURL string `json:"apiUrl" without:"https:// and apiDomain, else the platform's" doc:"the public address of the management API, as [cards of its MCP servers](api.md#found-by-mcp-clients) name it, where something else stands before it"`
	// Origins are those of pages that may call the management API's MCP server beside its own.
	Origins []string `json:"origins" maxItems:"50" doc:"origins, with spaces between in the context, whose pages [may call the API's MCP server](mcp-api.md#from-a-browser)"`
	// DocsEmbeddings and DocsAnswers are the ids of models of Bedrock by which the documentation is searched and questions about it
	// are answered, "" for none; DocsAnswersADay is how many questions of a day a process puts to the latter.
	DocsEmbeddings  string `json:"docsEmbeddings" doc:"a model of Bedrock by which [the documentation is searched](mcp-docs.md#with-models-of-bedrock), by its id"`
	DocsAnswers     string `json:"docsAnswers" doc:"one by which questions about it are answered"`
	DocsAnswersADay int    `json:"docsAnswersADay" default:"200" minimum:"1" maximum:"100000" doc:"how many questions of a day each process puts to the latter"`
	// CertificateARN is of a certificate for both domains (the gateway's with a wildcard).
	CertificateARN string `json:"certificateArn" pattern:"^arn:[a-z-]+:acm:[a-z0-9-]+:[0-9]{12}:certificate/[^\\s${}]+$" is:"is the ARN of a certificate of ACM, such as arn:aws:acm:REGION:ACCOUNT:certificate/ID" doc:"a certificate for these names, by its ARN"`
	// RelayDomain is the relay's domain name, to which agents of tunnels connect, "" for none: without it an installation has no
	// relay, since one costs some 46 dollars a month while nobody uses it (docs/cost.md).
	RelayDomain string `json:"relayDomain" pattern:"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$" is:"is a name such as relay.example.com, in lower case" doc:"the name of [a relay for tunnels](#a-relay-for-tunnels); without it there is none, since it costs money while nobody asks it"`
	// RelayMemoryMB and GatewayTaskMemoryMB are the memory of each task; half as many CPU units
	// come with them, of which a processor has 1024.
	RelayMemoryMB int `json:"relayMemory" default:"512" enum:"512,1024,2048,4096,8192" doc:"megabytes of each relay; processors come with them: a quarter of one with 512"`
	// Gateway says what serves deployments: the function behind an API of its own, processes behind a load balancer, or both, between
	// which clients can be moved. Processes cost money while nobody asks.
	Gateway string `json:"gateway" default:"lambda" enum:"lambda,container,both" doc:"what serves deployments: a function behind API Gateway, [processes](#gateways-as-processes) behind a load balancer, or both; processes cost money while nobody asks them"`
	// GatewayTasks and GatewayTasksMost are how many gateways run as processes, as their work asks for. 50 are far below the 1,000 tasks
	// that ECS takes of a service: a mistyped number costs no more.
	GatewayTasks        int `json:"gatewayTasks" default:"2" minimum:"1" maximum:"50" doc:"the fewest [gateways that run as processes](#gateways-as-processes)"`
	GatewayTasksMost    int `json:"gatewayTasksMost" default:"10" minimum:"1" maximum:"50" doc:"the most of them: as many run as their processors ask for"`
	GatewayTaskMemoryMB int `json:"gatewayTaskMemory" default:"1024" enum:"512,1024,2048,4096,8192" doc:"megabytes of each of them; processors come with them: half of one with 1024"`
	// VPC is a network of the operator's in which gateways run as processes, "" for one of their own; Subnets are where the tasks are, and
	// BalancerSubnets where the load balancer is, nil for the same: which are public then.
	VPC             string   `json:"vpc" pattern:"^vpc-[0-9a-f]{8,17}$" is:"is the id of a VPC, such as vpc-0123456789abcdef0" doc:"[your network](#upstreams-in-your-vpc) in which gateways run as processes; without it they have one of their own"`
	Subnets         []string `json:"subnets" maxItems:"16" doc:"where they run in it, two or more by their ids, with spaces between in the context: public ones, or private ones with a way out, with balancerSubnets"`
	BalancerSubnets []string `json:"balancerSubnets" maxItems:"16" doc:"public subnets of it for the load balancer, where the others are private"`
	// HostedZone is the Route 53 zone in which the installation leads GatewayDomain's names to what serves them, "" for one
	// whose owner does; GatewayContainerWeight is how many of a hundred clients it leads to processes where the function serves too.
	HostedZone             string `json:"hostedZone" pattern:"^Z[A-Z0-9]{1,31}$" is:"is the id of a hosted zone of Route 53, such as Z0123456789ABCDEFGHIJ" doc:"the zone of Route 53, by its id, in which [names of deployments](#lead-the-names) are led to what serves them; without it you lead them"`
	GatewayContainerWeight int    `json:"gatewayContainerWeight" default:"0" minimum:"0" maximum:"100" doc:"how many of a hundred clients the zone leads to processes, with gateway both"`
	// MemoryMB is each function's memory; gateway and builder have their own: the builder's is a whole processor. ComputeMemoryMB is
	// that of functions that compute (api.Group.Computes), three fifths of a processor.
	MemoryMB        int `json:"memory" default:"256" minimum:"128" maximum:"10240" doc:"megabytes of each function; processors come with them"`
	GatewayMemoryMB int `json:"gatewayMemory" default:"512" minimum:"128" maximum:"10240" doc:"megabytes of the gateway's"`
	BuilderMemoryMB int `json:"builderMemory" default:"1769" minimum:"128" maximum:"10240" doc:"megabytes of those that build"`
	ComputeMemoryMB int `json:"computeMemory" default:"1024" minimum:"128" maximum:"10240" doc:"megabytes of [the documentation's search](mcp-docs.md)"`
	// LogDays is how long logs are kept, one of the numbers that the log service takes.
	LogDays int `json:"logDays" default:"30" enum:"1,3,5,7,14,30,60,90,120,150,180,365,400,545,731" doc:"how many days logs are kept"`
	// Canary has another version of a function take a tenth of its calls first, and none where an
	// alarm is on, and other tasks of gateways a tenth of their connections; without it the version takes all at once.
	Canary bool `json:"canary" default:"true" doc:"has another version of a function take a tenth of its calls first, and none where an alarm is on, and [other tasks of gateways](#gateways-as-processes) a tenth of the connections; false releases at once, functions whatever alarms say"`
	// WAF puts a web ACL with rate limits before the management API.
	WAF bool `json:"waf" default:"false" doc:"a web ACL before the management API that stops floods from one address"`
	// Concurrency is how many calls at once Lambda runs for this installation: the account's quota, or the installation's part of it.
	// 0 reserves nothing for anybody: a new account may have 10, of which Lambda lets nobody reserve one.
	Concurrency int `json:"concurrency" default:"1000" minimum:"0" maximum:"1000000" doc:"how many calls at once Lambda runs for the installation, of which [functions reserve their part](#size); 0 reserves nothing"`
	// APIRate and APIBurst are requests a second that API Gateway takes for each method of the management API, and how many at once
	// beyond that; GatewayRate and GatewayBurst those of all deployments together. 0 leaves both to the account's quota. By default they
	// are together what an account has unless it asks for more: 10,000 a second, and bursts of 5,000.
	APIRate      int `json:"apiRate" default:"1000" minimum:"0" maximum:"1000000" doc:"requests a second that API Gateway takes for each method of the management API, where [its function can answer](#size) as many; 0, of apiBurst too, for the account's quota"`
	APIBurst     int `json:"apiBurst" default:"1000" minimum:"0" maximum:"1000000" doc:"how many of them at once beyond"`
	GatewayRate  int `json:"gatewayRate" default:"9000" minimum:"0" maximum:"1000000" doc:"the same of all deployments together"`
	GatewayBurst int `json:"gatewayBurst" default:"4000" minimum:"0" maximum:"1000000" doc:"the same of all deployments together"`
	// AccessLogs says whether API Gateway logs requests, and who sets the role under which it does. All APIs of the account and the region share the role.
	AccessLogs string `json:"accessLogs" default:"own" enum:"own,account,none" doc:"[access logs](observability.md#access-logs-of-api-gateway) of API Gateway, which need a role that is set once for an account and a region: with own, the installation sets it; with account, you have set it; with none, there are no access logs"`
	// AlarmTopic is the ARN of a topic of SNS that hears of each alarm, "" for nobody. An alarm's message has no group, which topics of
	// the kind .fifo want.
	AlarmTopic string `json:"alarmTopic" pattern:"^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$" is:"is the ARN of a standard topic of SNS, such as arn:aws:sns:eu-west-1:123456789012:alarms" doc:"the ARN of a topic of SNS that hears when [an alarm](#alarms) begins and ends"`
	// AlarmEmail is an address that a topic of the stack notifies of the same alarms, "" for none. It is personal data: only the stage's file,
	// the templates and the subscription contain it, and no error, output or log does.
	AlarmEmail string `json:"alarmEmail" personal:"true" pattern:"^[a-z0-9._+-]{1,64}@([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$" is:"is an email address in lower case, such as you@example.com" doc:"an email address that hears when [an alarm](#alarms) begins and ends, once its owner has confirmed the subscription; with alarmTopic, both hear"`
	// CheckRegion is the region of the synthetic check, "" for no check. CheckTopic is the ARN of a topic of SNS there that hears of its alarms,
	// "" for none: topics send only alarms of their own region.
	CheckRegion string `json:"checkRegion" pattern:"^[a-z]{2}(-[a-z]+)+-[0-9]{1,2}$" is:"is a region such as eu-central-1" doc:"another region of AWS, from which [a check](#a-check-from-another-region) asks the installation what clients ask it, once a minute; without it there is none"`
	CheckTopic  string `json:"checkTopic" pattern:"^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$" is:"is the ARN of a standard topic of SNS, such as arn:aws:sns:eu-central-1:123456789012:alarms" doc:"the ARN of a topic of SNS in checkRegion that hears when an alarm of the check begins and ends; with alarmEmail, both hear"`
	// MonthlyBudget is what the account may cost in a month before somebody is notified, in US dollars; 0 for no budget.
	MonthlyBudget int `json:"monthlyBudget" default:"0" minimum:"0" maximum:"1000000" doc:"US dollars that the AWS account may cost in a month: alarmEmail and alarmTopic hear when 80 % are spent, and when AWS forecasts more than all of it; 0 for [no budget](#alarms)"`
	// Streaming has API Gateway pass the gateway's answers on as they come, in
	// regions where it can. It is off by default, since no emulator knows it
	// (LocalStack 4.14.0, MiniStack 1.5.33) and nobody has seen it work: when the
	// scenario suite passes in AWS with it, make it the default. Without it
	// answers over 6 MB, server-sent events and slow downloads need a container.
	Streaming bool `json:"streaming" default:"false" doc:"passes answers of deployments on as they come, in regions whose API Gateway can: past 6 MB and 29 s, and server-sent events. Not tried in AWS yet"`
	// OTLPEndpoint is the base address of a collector that spans are sent to,
	// such as https://collector.example.com:4318; "" for no traces.
	OTLPEndpoint string `json:"otlpEndpoint" pattern:"^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?$" is:"is an address such as https://collector.example.com:4318" doc:"a collector that spans are sent to, see [observability](observability.md#traces)"`
	// PrivateUpstreams allows the gateway to call private addresses.
	PrivateUpstreams bool `json:"privateUpstreams" default:"false" doc:"lets projects call private addresses, [which processes in your network reach](#upstreams-in-your-vpc): only when all who deploy are trusted"`
	// HeaderUnderscores lets header fields with "_" in their names pass upstream.
	HeaderUnderscores bool `json:"headerUnderscores" default:"false" doc:"passes header fields with an underscore in their names on: [why they are dropped](projects.md#handlers)"`
	// StandardHTTP makes the gateway send every request through http.Transport. Listeners let net/http alone read requests.
	StandardHTTP bool `json:"standardHttp" default:"false" doc:"the standard library alone reads requests and sends them to upstreams, for [an incident](security.md#if-a-parser-is-at-fault)"`
	// Limits are what bounds each account, as config.VarLimits has them.
	Limits string `json:"limits" doc:"what bounds each account, as [GATEWRIGHT_LIMITS](limits.md#accounts) has it"`

	// Emulator is "" for AWS, else localstack or ministack: see docs/emulators.md for
	// what is left out there.
	Emulator string `json:"emulator" only:"context" enum:"localstack,ministack"`
	// RelayURL is the origin of a relay that runs beside an emulator.
	RelayURL string `json:"relayUrl" only:"context"`
	// Architecture of the functions: arm64, or x86_64 for emulators.
	Architecture string `json:"architecture" only:"context" default:"arm64" enum:"arm64,x86_64"`
	// Stages is the folder of the stages' files.
	Stages string `json:"stages" only:"context" default:"infra/stages"`
	// Assets is the folder with a folder for each function and service, "" for that of make build.
	Assets string `json:"assets" only:"context"`
	// UsesFile has functions of an emulator record what they ask of AWS.
	UsesFile string `json:"usesFile" only:"context"`
	// Cron takes the place of every schedule by cron of an emulator's functions: a
	// test does not wait an hour.
	Cron string `json:"cron" only:"context"`

	// FileDigest is a digest of the words of the stage's file, "" if no file was read. With it a deployment finds out whether the file has changed.
	FileDigest string `json:"-"`
	// Bounds are what clients of services may take where the context says so, by the service's name and the variable. Their words are
	// declared by the services.
	Bounds map[string]map[string]string `json:"-"`
}

// The emulators, by their word of the context.
const (
	localStack = "localstack"
	miniStack  = "ministack"
)

var emulators = []string{"", localStack, miniStack}

// settingsOf reads the context alone, without a stage's file. Its error tells everything that is wrong, a line each.
func settingsOf(context func(string) any) (Settings, error) {
	given, wrong := contextWords(context)
	return settle(given, wrong)
}

// settle makes settings of words that are each as declared, and checks what they say together.
func settle(given words, wrong []error) (Settings, error) {
	s, err := given.settings()
	if err != nil {
		return s, errors.Join(append(wrong, err)...)
	}
	if _, said := given["protected"]; !said {
		s.Protected = s.Emulator == "" // where nothing is to be kept
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
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	check(!s.Streaming || s.Emulator == "", "-c streaming is not for emulators: they take whole answers")
	check(s.AlarmEmail == "" || s.Emulator == "", "-c alarmEmail is not for emulators: they send no mail")
	check(s.MonthlyBudget == 0 || s.Emulator == "", "-c monthlyBudget is not for emulators: they know no costs")
	check(s.MonthlyBudget == 0 || s.AlarmEmail+s.AlarmTopic != "" || s.Emulator != "", "-c monthlyBudget notifies nobody without alarmEmail or alarmTopic: add one of them, or leave monthlyBudget out")
	check(s.UsesFile == "" || s.Emulator != "", "-c usesFile is for emulators")
	check(s.Cron == "" || s.Emulator != "", "-c cron is for emulators")
	check(s.RelayURL == "" || s.Emulator != "", "-c relayUrl is for emulators: relayDomain gives an installation a relay")
	check(s.RelayDomain == "" || s.Emulator == "", "-c relayDomain is not for emulators: relayUrl leads to a relay beside them")
	check((s.APIDomain == "" && (s.GatewayDomain == "" || !s.byFunction())) || s.CertificateARN != "", "-c certificateArn is needed with apiDomain or gatewayDomain")
	check(!slices.ContainsFunc(s.Origins, func(o string) bool { return !origin.Is(o) }), "-c origins are origins such as https://inspector.example.com, with spaces between")
	check(s.DocsEmbeddings == "" || config.IsEmbeddingModel(s.DocsEmbeddings), "-c docsEmbeddings is one of %s", strings.Join(config.EmbeddingModels(), ", "))
	check(s.DocsAnswers == "" || config.IsModel(s.DocsAnswers), "-c docsAnswers is the id of a model of Bedrock such as amazon.nova-lite-v1:0, or of an inference profile such as eu.amazon.nova-lite-v1:0")
	check(s.Emulator == "" || s.DocsEmbeddings+s.DocsAnswers == "", "-c docsEmbeddings and -c docsAnswers are not for emulators: they have no Bedrock")
	check(s.APIURL == "" || config.IsBase(s.APIURL), "-c apiUrl is an address such as https://api.example.com")
	wrong = append(wrong, s.checkSettings()...)
	_, err = limits.Parse(s.Limits)
	check(err == nil, "-c limits: %w", err)
	check(s.wordBytes() <= mostWords, "-c origins, -c limits and addresses have %d bytes together, and may have %d: Lambda takes 4 KB of environment variables for a function", s.wordBytes(), mostWords)
	check(s.GatewayURL != "", "-c gatewayDomain=apis.example.com is needed: deployments are told apart by their host names (or -c gatewayUrl with {deployment} in it)")
	return s, errors.Join(append(wrong, beside(wrong, errors.Join(s.checkGateway(given), s.readBounds(given), s.checkFences())))...)
}

// readBounds reads the bounds that services declare, by what they read them with themselves. One of a service that there is not
// would hold for nobody.
func (s *Settings) readBounds(given words) error {
	s.Bounds = map[string]map[string]string{}
	var wrong []error
	for _, declared := range functions.Services() {
		for _, b := range declared.Bounds {
			if given[b.Context] == nil {
				continue
			}
			value := given.text(b.Context)
			if value == "" { // which a process reads as one that is not said
				wrong = append(wrong, fmt.Errorf("-c %s says nothing: say a number, or leave it out", b.Context))
				continue
			}
			_, err := config.ListenerFromEnvironment(func(name string) string { return map[string]string{b.Variable: value}[name] })
			switch {
			case err != nil:
				wrong = append(wrong, fmt.Errorf("-c %s: %w", b.Context, err))
			case !slices.ContainsFunc(declaredServices(*s), func(d deployment) bool { return d.Name == declared.Name }):
				wrong = append(wrong, fmt.Errorf("-c %s is for the service %s, which this context does not have", b.Context, declared.Name))
			}
			if s.Bounds[declared.Name] == nil {
				s.Bounds[declared.Name] = map[string]string{}
			}
			s.Bounds[declared.Name][b.Variable] = value
		}
	}
	return errors.Join(wrong...)
}

// goArchitecture is what Go calls the architecture, "" for one that is none of ours.
func (s Settings) goArchitecture() string {
	return map[string]string{"arm64": "arm64", "x86_64": "amd64"}[s.Architecture]
}

// relay is the origin of the installation's relay, "" where there is none.
func (s Settings) relay() string {
	if s.RelayDomain == "" {
		return s.RelayURL
	}
	return "https://" + s.RelayDomain
}

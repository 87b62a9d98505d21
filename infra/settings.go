package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/origin"
)

// Settings are what differs between installations, from the CDK's context
// (`-c name=value`, or cdk.json).
type Settings struct {
	// Stage names the installation, such as dev or production; production is
	// protected against deletion.
	Stage string
	// APIDomain and GatewayDomain are domain names of this account's
	// certificate, "" for the platform's addresses. Deployments are served at
	// <deployment>.GatewayDomain.
	APIDomain, GatewayDomain string
	// APIURL is the management API's public address, which cards of its MCP servers name; derived
	// from APIDomain, or else the platform's, unless it is given: that of what stands before it.
	APIURL string
	// Origins are those of pages that may call the management API's MCP server beside its own.
	Origins []string
	// DocsEmbeddings and DocsAnswers are the ids of models of Bedrock by which the documentation is searched and questions about it
	// are answered, "" for none; DocsAnswersADay is how many questions of a day a process puts to the latter.
	DocsEmbeddings, DocsAnswers string
	DocsAnswersADay             int
	// CertificateARN is of a certificate for both domains (the gateway's with a
	// wildcard).
	CertificateARN string
	// GatewayURL is the origin of deployments with {deployment} in place of the
	// name; derived from GatewayDomain unless it is given.
	GatewayURL string
	// RelayDomain is the relay's domain name, to which agents of tunnels connect, "" for
	// none: without it an installation has no relay, since one costs some 46 dollars a month
	// while nobody uses it (docs/cost.md).
	RelayDomain string
	// GatewayTasks is how many gateways run as processes beside the function, 0 for none: they
	// cost money while nobody asks.
	GatewayTasks int
	// RelayMemoryMB and GatewayTaskMemoryMB are the memory of each task; half as many CPU units
	// come with them, of which a processor has 1024.
	RelayMemoryMB, GatewayTaskMemoryMB int
	// RelayURL is the origin of a relay that runs beside an emulator.
	RelayURL string
	// MemoryMB is each function's memory; gateway and builder have their own.
	MemoryMB, GatewayMemoryMB, BuilderMemoryMB int
	// ComputeMemoryMB is that of functions that compute (api.Group.Computes): their share of a processor comes with it.
	ComputeMemoryMB int
	// LogDays is how long logs are kept, one of the numbers that the log
	// service takes.
	LogDays int
	// Canary has another version of a function take a tenth of its calls first, and none where an
	// alarm is on; without it the version takes all at once.
	Canary bool
	// WAF puts a web ACL with rate limits before the management API.
	WAF bool
	// Emulator is "" for AWS, else localstack or ministack: see docs/emulators.md for
	// what is left out there.
	Emulator string
	// Architecture of the functions: arm64, or x86_64 for emulators.
	Architecture string
	// Assets is the folder with a folder for each function and service.
	Assets string
	// Streaming has API Gateway pass the gateway's answers on as they come, in
	// regions where it can. It is off by default, since no emulator knows it
	// (LocalStack 4.14.0, MiniStack 1.5.33) and nobody has seen it work: when the
	// scenario suite passes in AWS with it, make it the default. Without it
	// answers over 6 MB, server-sent events and slow downloads need a container.
	Streaming bool
	// PrivateUpstreams allows the gateway to call private addresses.
	PrivateUpstreams bool
	// HeaderUnderscores lets header fields with "_" in their names pass upstream.
	HeaderUnderscores bool
	// OTLPEndpoint is the base address of a collector that spans are sent to,
	// such as https://collector.example.com:4318; "" for no traces.
	OTLPEndpoint string
	// Bounds are what clients of services may take where the context says so, by the service's name and the variable.
	Bounds map[string]map[string]string
	// UsesFile has functions of an emulator record what they ask of AWS.
	UsesFile string
	// Fences keep one part of an installation from starving another.
	Fences
	// Cron takes the place of every schedule by cron of an emulator's functions: a
	// test does not wait an hour.
	Cron string
}

const (
	production = "production"

	localStack = "localstack"
	miniStack  = "ministack"

	// mostTasks is far below the 1,000 tasks that ECS takes of a service: a mistyped number costs no more.
	mostTasks = 50
)

// What values of the context may be.
var (
	emulators    = []string{"", localStack, miniStack}
	stagePattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,15}$`)
	taskMemory   = []int{512, 1024, 2048, 4096, 8192}
	// hostname is a name below a domain, as certificates name it.
	hostname = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$`)
	logDays  = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731}
)

// settingsOf reads the context. Its error tells everything that is wrong.
func settingsOf(context func(string) any) (Settings, error) {
	var wrong []error
	text := func(name, otherwise string) string {
		switch v := context(name).(type) {
		case nil:
			return otherwise
		case string:
			return v
		default:
			return fmt.Sprint(v)
		}
	}
	number := func(name string, otherwise int) int {
		n, err := strconv.Atoi(text(name, strconv.Itoa(otherwise)))
		if err != nil {
			wrong = append(wrong, fmt.Errorf("-c %s has to be a whole number", name))
		}
		return n
	}
	s := Settings{
		Stage:            text("stage", "dev"),
		APIDomain:        text("apiDomain", ""),
		GatewayDomain:    text("gatewayDomain", ""),
		APIURL:           strings.TrimSuffix(text("apiUrl", ""), "/"),
		Origins:          strings.Fields(text("origins", "")),
		DocsEmbeddings:   text("docsEmbeddings", ""),
		DocsAnswers:      text("docsAnswers", ""),
		DocsAnswersADay:  number("docsAnswersADay", config.DefaultDocsAnswersADay),
		CertificateARN:   text("certificateArn", ""),
		GatewayURL:       text("gatewayUrl", ""),
		RelayDomain:      text("relayDomain", ""),
		RelayMemoryMB:    number("relayMemory", 512),
		RelayURL:         text("relayUrl", ""),
		GatewayTasks:     number("gatewayTasks", 0),
		MemoryMB:         number("memory", 256),
		GatewayMemoryMB:  number("gatewayMemory", 512),
		BuilderMemoryMB:  number("builderMemory", 1769), // one whole processor
		ComputeMemoryMB:  number("computeMemory", 1024), // three fifths of a processor
		LogDays:          number("logDays", 30),
		Canary:           text("canary", "true") == "true",
		WAF:              text("waf", "false") == "true",
		Emulator:         text("emulator", ""),
		Architecture:     text("architecture", "arm64"),
		Streaming:        text("streaming", "false") == "true",
		PrivateUpstreams: text("privateUpstreams", "false") == "true",

		GatewayTaskMemoryMB: number("gatewayTaskMemory", 1024), // half a processor

		HeaderUnderscores: text("headerUnderscores", "false") == "true",
		OTLPEndpoint:      text("otlpEndpoint", ""),
		UsesFile:          text("usesFile", ""),
		Cron:              text("cron", ""),
	}
	arch := s.goArchitecture()
	s.Assets = text("assets", filepath.Join("dist", arch))
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
	check(stagePattern.MatchString(s.Stage), "-c stage has 1 to 16 lower-case letters, digits and hyphens and begins with a letter")
	check(slices.Contains(emulators, s.Emulator), "-c emulator is localstack or ministack, or not given")
	check(!s.Streaming || s.Emulator == "", "-c streaming is not for emulators: they take whole answers")
	check(s.UsesFile == "" || s.Emulator != "", "-c usesFile is for emulators")
	check(s.Cron == "" || s.Emulator != "", "-c cron is for emulators")
	check(s.RelayURL == "" || s.Emulator != "", "-c relayUrl is for emulators: relayDomain gives an installation a relay")
	check(s.RelayDomain == "" || s.Emulator == "", "-c relayDomain is not for emulators: relayUrl leads to a relay beside them")
	check(s.RelayDomain == "" || hostname.MatchString(s.RelayDomain), "-c relayDomain is a name such as relay.example.com, in lower case")
	check(slices.Contains(taskMemory, s.RelayMemoryMB), "-c relayMemory is one of %s", strings.Trim(fmt.Sprint(taskMemory), "[]"))
	check(slices.Contains(taskMemory, s.GatewayTaskMemoryMB), "-c gatewayTaskMemory is one of %s", strings.Trim(fmt.Sprint(taskMemory), "[]"))
	check(s.GatewayTasks >= 0 && s.GatewayTasks <= mostTasks, "-c gatewayTasks is between 0, for none, and %d", mostTasks)
	check(s.GatewayTasks == 0 || s.Emulator == "", "-c gatewayTasks is not for emulators: the function serves there")
	check(s.GatewayTasks == 0 || s.GatewayDomain != "", "-c gatewayTasks needs -c gatewayDomain, whose certificate the processes have")
	check(arch != "", "-c architecture is arm64 or x86_64")
	check(slices.Contains(logDays, s.LogDays), "-c logDays is one of %s", strings.Trim(fmt.Sprint(logDays), "[]"))
	check((s.APIDomain == "" && s.GatewayDomain == "") || s.CertificateARN != "", "-c certificateArn is needed with apiDomain or gatewayDomain")
	check(!slices.ContainsFunc(s.Origins, func(o string) bool { return !origin.Is(o) }), "-c origins are origins such as https://inspector.example.com, with spaces between")
	check(s.DocsEmbeddings == "" || config.IsEmbeddingModel(s.DocsEmbeddings), "-c docsEmbeddings is one of %s", strings.Join(config.EmbeddingModels(), ", "))
	check(s.DocsAnswers == "" || config.IsModel(s.DocsAnswers), "-c docsAnswers is the id of a model of Bedrock such as amazon.nova-lite-v1:0, or of an inference profile such as eu.amazon.nova-lite-v1:0")
	check(config.IsDocsAnswersADay(s.DocsAnswersADay), "-c docsAnswersADay is between 1 and 100000")
	check(s.Emulator == "" || s.DocsEmbeddings+s.DocsAnswers == "", "-c docsEmbeddings and -c docsAnswers are not for emulators: they have no Bedrock")
	check(s.APIURL == "" || config.IsBase(s.APIURL), "-c apiUrl is an address such as https://api.example.com")
	check(s.GatewayURL != "", "-c gatewayDomain=apis.example.com is needed: deployments are told apart by their host names (or -c gatewayUrl with {deployment} in it)")
	for name, mb := range map[string]int{"memory": s.MemoryMB, "gatewayMemory": s.GatewayMemoryMB, "builderMemory": s.BuilderMemoryMB, "computeMemory": s.ComputeMemoryMB} {
		check(mb >= 128 && mb <= 10240, "-c %s is between 128 and 10240 MB", name)
	}
	return s, errors.Join(append(wrong, s.readBounds(text), s.readFences(text))...)
}

// readBounds reads the bounds that services declare, by what they read them with themselves. One of a service that there is not
// would hold for nobody.
func (s *Settings) readBounds(text func(name, otherwise string) string) error {
	s.Bounds = map[string]map[string]string{}
	var wrong []error
	for _, declared := range functions.Services() {
		for _, b := range declared.Bounds {
			value := text(b.Context, "")
			if value == "" {
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

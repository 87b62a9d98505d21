package main

// Several tests share these contexts, because synthesizing an installation for each context takes long. The settings of
// a context are independent of each other. Each test checks only some of them.
var (
	// functionContext has all settings that functions read: allowed origins, a collector, a relay, a proxy in front of
	// the management API's domain, and models of Bedrock.
	functionContext = map[string]string{
		"origins": allowedOrigins, "otlpEndpoint": collectorURL, "relayDomain": "relay.example.com",
		"apiDomain": "api.example.com", "apiUrl": "https://edge.example.com/api/",
		"docsEmbeddings": "amazon.titan-embed-text-v2:0", "docsAnswers": "amazon.nova-lite-v1:0", "docsAnswersADay": "50",
	}
	// apiDomainContext has a domain for the management API, and a web ACL.
	apiDomainContext = map[string]string{"apiDomain": "api.example.com", "waf": "true"}
	// streamingContext has a gateway that streams, and a model behind an inference profile.
	streamingContext = map[string]string{"streaming": "true", "docsAnswers": "eu." + haikuModel}
	// largerContext has more memory for the gateway, and for functions without a memory setting of their own. The
	// account already has a role for access logs.
	largerContext = map[string]string{"gatewayMemory": "1024", "memory": "512", "accessLogs": "account"}
	// unreservedContext is for a small account without reservations. It sets throttles, and has a web ACL, no canary
	// and no access logs.
	unreservedContext = map[string]string{
		"concurrency": "0", "apiRate": "50", "apiBurst": "60", "gatewayRate": "0", "gatewayBurst": "0", "waf": "true",
		"canary":     "false",
		"accessLogs": "none",
	}
	// emulatorContext has an emulator with a relay, and with a proxy in front of the management API.
	emulatorContext = map[string]string{
		"emulator": localStack, "apiUrl": "http://api.example.com",
		"relayUrl": "http://127.0.0.1:9003",
	}
	// emulatorContexts has a context for each emulator, and for AWS under "".
	emulatorContexts = map[string]map[string]string{
		"": nil, localStack: emulatorContext,
		miniStack: {"emulator": miniStack},
	}
	// alarmTopicContext has a topic for alarms, and processes that are released without a canary.
	alarmTopicContext = servicesContext(map[string]string{"alarmTopic": topicARN, "canary": "false"})
	// noDomainContext is valid without a domain, and therefore needs no certificate.
	noDomainContext = map[string]string{
		"gatewayUrl":  "https://{deployment}.apis.example.com",
		"relayDomain": "relay.example.com",
	}
)

const (
	allowedOrigins = "https://a.example.com http://localhost:6274"
	collectorURL   = "https://collector.example.com:4318"
	haikuModel     = "anthropic.claude-haiku-4-5-20251001-v1:0"
)

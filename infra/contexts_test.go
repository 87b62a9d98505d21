package main

// Contexts that several tests share, since each one is an installation to synthesize. Each of them has words that change nothing of
// each other. A test looks at the word that it is about.
var (
	// told has all settings that functions read: pages that may call, a collector, a relay, what is in front of the management API's domain,
	// and models of Bedrock.
	told = map[string]string{
		"origins": pages, "otlpEndpoint": collector, "relayDomain": "relay.example.com",
		"apiDomain": "api.example.com", "apiUrl": "https://edge.example.com/api/",
		"docsEmbeddings": "amazon.titan-embed-text-v2:0", "docsAnswers": "amazon.nova-lite-v1:0", "docsAnswersADay": "50",
	}
	// ownDomain has a domain of the management API's own, and a web ACL.
	ownDomain = map[string]string{"apiDomain": "api.example.com", "waf": "true"}
	// streams has a gateway that streams, and a model behind an inference profile.
	streams = map[string]string{"streaming": "true", "docsAnswers": "eu." + haiku}
	// larger has more memory for the gateway, and for functions without a size of their own. Its account has a role for access logs.
	larger = map[string]string{"gatewayMemory": "1024", "memory": "512", "accessLogs": "account"}
	// unfenced is for a small account without reservations. It has its own throttles, a web ACL, no canary and no access logs.
	unfenced = map[string]string{
		"concurrency": "0", "apiRate": "50", "apiBurst": "60", "gatewayRate": "0", "gatewayBurst": "0", "waf": "true", "canary": "false",
		"accessLogs": "none",
	}
	// besideEmulator has a relay and a proxy of the management API beside an emulator.
	besideEmulator = map[string]string{"emulator": localStack, "apiUrl": "http://api.example.com", "relayUrl": "http://127.0.0.1:9003"}
	// emulated has a context of each emulator, and of AWS.
	emulated = map[string]map[string]string{"": nil, localStack: besideEmulator, miniStack: {"emulator": miniStack}}
	// ringing tells a topic of alarms, and has processes that are released without a canary.
	ringing = serving(map[string]string{"alarmTopic": topic, "canary": "false"})
	// withoutDomains is whole: it has no domain, and so no certificate.
	withoutDomains = map[string]string{"gatewayUrl": "https://{deployment}.apis.example.com", "relayDomain": "relay.example.com"}
)

const (
	pages     = "https://a.example.com http://localhost:6274"
	collector = "https://collector.example.com:4318"
	haiku     = "anthropic.claude-haiku-4-5-20251001-v1:0"
)

package main

import (
	"github.com/gatewright/gatewright/local/dev/grants"
	"github.com/gatewright/gatewright/shared/core/store"
)

// rarePrefixes returns the key prefixes that functions need and that no test of the suite can use on demand.
func rarePrefixes() []grants.RarePrefix {
	var all []grants.RarePrefix
	add := func(function, reason, action string, prefixes ...store.KeyPrefix) {
		for _, prefix := range prefixes {
			all = append(all, grants.RarePrefix{
				Function: "gatewright-" + stage + "-" + function, Action: "dynamodb:" + action,
				KeyPrefix: prefix, Reason: reason,
			})
		}
	}
	const (
		certificate  = "a client sends a TLS certificate; API Gateway supports this only on a custom domain"
		meteredQuota = "a quota policy enforces the quotas of a customer's metering subscription"
		domain       = "a request is for a custom domain; only gateways that run as processes serve these"
		issuance     = "a certificate for a custom domain is ordered and stored for gateways; for this the certificate " +
			"authority has to reach the domain"
		deletion    = "a project is deleted that has environments, variables, certificates or domains"
		reclamation = "an instance of the gateway has died while it held units of a quota"
		streaming   = "a response is streamed, which no emulator supports"
		batching    = "a roll sets an expiry on more keys than fit into one transaction"
	)
	add("gateway", certificate, "Query", "client-ca")
	add("gateway", certificate, "GetItem", "client-ca-set")
	add("gateway", meteredQuota, "GetItem", "metering-bucket", "metering-plan", "metering-subscription",
		"allowance-journal")
	add("gateway", meteredQuota, "Query", "metering-customer")
	add("gateway", meteredQuota, "PutItem", "allowance-journal", "allowance-receipt")
	add("gateway", domain, "GetItem", "custom-domain-challenge", "custom-domain-host", "custom-domain-index",
		"custom-domain-versions")
	add("gateway", streaming, "Query", "account-slots")
	add("gateway", streaming, "UpdateItem", "account-slots")
	for _, function := range []string{"gateway", "builder", "operations"} {
		add(function, "a project names a key bucket by its ID", "GetItem", "bucket-id")
	}
	add("builder", "a project uses a metering bucket", "GetItem", "metering-bucket")
	add("operations", "a project uses a metering bucket, and its builder has died", "GetItem", "metering-bucket")
	add("operations", issuance, "GetItem", "acme-account", "custom-domain-challenge", "custom-domain-orders")
	add("operations", issuance, "PutItem", "acme-account", "custom-domain", "custom-domain-challenge",
		"custom-domain-host", "custom-domain-index", "custom-domain-orders", "custom-domain-versions")
	add("operations", deletion, "DeleteItem", "custom-domain-count", "environments", "mtls-certificate",
		"mtls-certificate-name", "variable-count", "variables")
	add("operations", reclamation, "GetItem", "allowance-journal")
	add("operations", reclamation, "DeleteItem", "allowance-journal")
	add("operations", batching, "GetItem", "key-batch")
	add("operations", batching, "DeleteItem", "key-batch")
	add("operations", "a bucket is deleted with a consumer that has tags or managers", "DeleteItem", "consumer-by")
	add("operations", rotationReason, "GetItem", "key-hash")
	add("operations", rotationReason, "PutItem", "root-key", "tunnel", "tunnel-token")
	add("operations", "a release writes another format of artifacts than the previous release", "PutItem",
		"artifact-format")
	return all
}

// rotationReason is the reason for grants and key prefixes that only a rotation of the root key uses.
const rotationReason = "a rotation of the root key, which waits for hours between its stages, searches for data " +
	"that is sealed under the old key"

// rareGrants returns the grants that functions need and that no test of the suite can use on demand.
func rareGrants() []grants.RareGrant {
	newRare := func(function, action, resource, reason string) grants.RareGrant {
		return grants.RareGrant{
			Function: "gatewright-" + stage + "-" + function,
			Grant:    grants.Grant{Action: action, Resource: resource}, Reason: reason,
		}
	}
	const unfinished = "it continues a build whose builder has died during the first step"
	return []grants.RareGrant{
		newRare("auditchain", "dynamodb:ConditionCheckItem", "table",
			"it deletes pending records that the stream delivers again, and checks that the head of the chain "+
				"has not changed"),
		newRare("auditlogs", "dynamodb:BatchGetItem", "table",
			"its list checks which records were chained while it read the pending ones"),
		newRare("gateway", "dynamodb:PutItem", "table", "an instance returns units that it has not spent for 30 s, "+
			"when another request arrives after that time"),
		newRare("gateway", "dynamodb:Query", "table", "it reads an account's client CAs when a client sends a TLS "+
			"certificate; API Gateway supports this only on a custom domain"),
		newRare("tunnels", "dynamodb:UpdateItem", "table",
			"it records the day on which an account key was used, if no other function has recorded that day"),
		newRare("operations", "dynamodb:Scan", "table", rotationReason),
		newRare("operations", "s3:GetObject", "bucket/artifacts/*", rotationReason),
		newRare("operations", "s3:GetObject", "bucket/uploads/*", unfinished),
		newRare("operations", "s3:DeleteObject", "bucket/uploads/*", unfinished),
		newRare("operations", "s3:PutObject", "bucket/sources/*", unfinished),
	}
}

package main

import (
	"github.com/gatewright/gatewright/local/grants"
	"github.com/gatewright/gatewright/shared/store"
)

// rareSpaces are the spaces whose use the suite cannot bring about at will.
func rareSpaces() []grants.RareSpace {
	var all []grants.RareSpace
	of := func(function, why, action string, spaces ...store.Space) {
		for _, s := range spaces {
			all = append(all, grants.RareSpace{Function: "gatewright-" + stage + "-" + function, Action: "dynamodb:" + action, Space: s, Why: why})
		}
	}
	const (
		certificate = "a client has shown a certificate, which needs a custom domain of API Gateway"
		bought      = "a quota counts what such a client has bought"
		domain      = "a request comes to a custom domain, which leads to a gateway as a process"
		issues      = "a certificate is ordered for a custom domain, which an authority has to reach, and kept for those who serve it"
		deletes     = "a project is deleted that has environments, variables, certificates or domains"
		reclaims    = "an instance of the gateway is gone that had leased something of a quota"
		streams     = "an answer streams, which no emulator does"
		batches     = "more keys expire with a roll than fit into one transaction"
	)
	of("gateway", certificate, "Query", "client-ca")
	of("gateway", certificate, "GetItem", "client-ca-set")
	of("gateway", bought, "GetItem", "metering-bucket", "metering-plan", "metering-subscription", "allowance-journal")
	of("gateway", bought, "Query", "metering-customer")
	of("gateway", bought, "PutItem", "allowance-journal", "allowance-receipt")
	of("gateway", domain, "GetItem", "custom-domain-challenge", "custom-domain-host", "custom-domain-index", "custom-domain-versions")
	of("gateway", streams, "Query", "account-slots")
	of("gateway", streams, "UpdateItem", "account-slots")
	for _, function := range []string{"gateway", "builder", "operations"} {
		of(function, "a project names its bucket by its id", "GetItem", "bucket-id")
	}
	of("builder", "a project counts by a bucket of metering", "GetItem", "metering-bucket")
	of("operations", "a project counts by a bucket of metering, and its builder has died", "GetItem", "metering-bucket")
	of("operations", issues, "GetItem", "acme-account", "custom-domain-challenge", "custom-domain-orders")
	of("operations", issues, "PutItem", "acme-account", "custom-domain", "custom-domain-challenge", "custom-domain-host", "custom-domain-index", "custom-domain-orders", "custom-domain-versions")
	of("operations", deletes, "DeleteItem", "custom-domain-count", "environments", "mtls-certificate", "mtls-certificate-name", "variable-count", "variables")
	of("operations", reclaims, "GetItem", "allowance-journal")
	of("operations", reclaims, "DeleteItem", "allowance-journal")
	of("operations", batches, "GetItem", "key-batch")
	of("operations", batches, "DeleteItem", "key-batch")
	of("operations", "a consumer goes with its bucket that has tags or managers", "DeleteItem", "consumer-by")
	of("operations", rotates, "GetItem", "key-hash")
	of("operations", rotates, "PutItem", "root-key", "tunnel", "tunnel-token")
	of("operations", "a release writes another format of artifacts than the one before", "PutItem", "artifact-format")
	return all
}

// rotates is when a rotation of the root key needs what it does.
const rotates = "a rotation of the root key, which waits for hours between its stages, looks for what is under the old one"

// rare are the grants whose use the suite cannot bring about at will.
func rare() []grants.Rare {
	of := func(function, action, resource, why string) grants.Rare {
		return grants.Rare{Function: "gatewright-" + stage + "-" + function, Grant: grants.Grant{Action: action, Resource: resource}, Why: why}
	}
	const unfinished = "it goes on with a build whose builder has died before its first step was done"
	return []grants.Rare{
		of("auditchain", "dynamodb:ConditionCheckItem", "table", "it takes off records that the stream tells of once more, and leaves the chain's end as it is"),
		of("auditlogs", "dynamodb:BatchGetItem", "table", "its list looks which records were chained while it read those that wait"),
		of("gateway", "dynamodb:PutItem", "table", "an instance gives back what it has leased and not spent for 30 s, when it is asked for something else then"),
		of("gateway", "dynamodb:Query", "table", "it reads an account's client CAs when a client has shown a certificate, which needs a custom domain of API Gateway"),
		of("tunnels", "dynamodb:UpdateItem", "table", "it notes the day on which an account key was used, where no other function has before"),
		of("operations", "dynamodb:Scan", "table", rotates),
		of("operations", "s3:GetObject", "bucket/artifacts/*", rotates),
		of("operations", "s3:GetObject", "bucket/uploads/*", unfinished),
		of("operations", "s3:DeleteObject", "bucket/uploads/*", unfinished),
		of("operations", "s3:PutObject", "bucket/sources/*", unfinished),
	}
}

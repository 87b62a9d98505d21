package main

import (
	"github.com/gatewright/gatewright/local/grants"
	"github.com/gatewright/gatewright/shared/store"
)

// rareSpaces are the spaces whose use the suite cannot bring about at will.
func rareSpaces() []grants.RareSpace {
	of := func(space store.Space, action, why string) grants.RareSpace {
		return grants.RareSpace{Function: "gatewright-" + stage + "-gateway", Action: "dynamodb:" + action, Space: space, Why: why}
	}
	const (
		certificate = "a client has shown a certificate, which needs a custom domain of API Gateway"
		bought      = "a quota counts what such a client has bought"
		domain      = "a request comes to a custom domain, which leads to a gateway as a process"
		named       = "a project names its bucket by its id"
	)
	return []grants.RareSpace{
		of("client-ca", "Query", certificate), of("client-ca-set", "GetItem", certificate),
		of("metering-bucket", "GetItem", bought), of("metering-customer", "Query", bought), of("metering-plan", "GetItem", bought), of("metering-subscription", "GetItem", bought),
		of("allowance-journal", "GetItem", bought), of("allowance-journal", "PutItem", bought), of("allowance-receipt", "PutItem", bought),
		of("custom-domain-challenge", "GetItem", domain), of("custom-domain-host", "GetItem", domain),
		of("custom-domain-index", "GetItem", domain), of("custom-domain-versions", "GetItem", domain),
		of("bucket-id", "GetItem", named),
	}
}

// rare are the grants whose use the suite cannot bring about at will.
func rare() []grants.Rare {
	of := func(function, action, resource, why string) grants.Rare {
		return grants.Rare{Function: "gatewright-" + stage + "-" + function, Grant: grants.Grant{Action: action, Resource: resource}, Why: why}
	}
	const unfinished = "it goes on with a build whose builder has died before its first step was done"
	const rotates = "a rotation of the root key, which waits for hours between its stages, looks for what is under the old one"
	return []grants.Rare{
		of("auditchain", "dynamodb:ConditionCheckItem", "table", "it takes off records that the stream tells of once more, and leaves the chain's end as it is"),
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

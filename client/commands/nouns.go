package commands

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/files"
)

// What several commands take.
var (
	inBucket    = given{argument: "bucketName", flag: "bucket", text: "the key bucket, by its name"}.must("partners")
	ofConsumer  = given{argument: "consumerName", flag: "consumer", text: "the consumer, by its name"}.must("acme")
	ofProject   = given{argument: "projectName", flag: "project", text: "the project"}.must("shop")
	onBranch    = given{argument: "branchName", flag: "branch", text: "the branch", preset: mainBranch}
	byTag       = given{argument: "tag", flag: "tag", kind: asTags, text: "with this tag alone"}
	description = given{argument: "description", flag: "description", text: "what it is for", sample: "'of our partners'"}
	expires     = given{argument: "expiresOn", flag: "expires-in", kind: asTime, text: "when it ends; never without it"}
	tags        = given{argument: "tags", flag: "tag", kind: asPairs, text: "a tag of its own"}
	metadata    = given{argument: "metadata", flag: "metadata", kind: asJSON, text: "what handlers may pass on, an object"}
)

// word is an argument that is typed as a word.
func word(argument, named, sample string) given {
	return given{argument: argument, word: named, sample: sample}
}

const anID = "3b241101e2bb"

// nouns are the resources of the API with the commands that ask one operation each.
func nouns() []func() noun {
	return []func() noun{
		bucketNoun, consumerNoun, projectNoun, environmentNoun, variableNoun, domainNoun,
		caNoun, certificateNoun, tunnelNoun, meteringNoun, accountKeyNoun, logNoun, analyticsNoun,
	}
}

func bucketNoun() noun {
	bucket := word("bucketName", "BUCKET", "partners")
	return noun{name: "bucket", also: []string{"key-bucket", "key-buckets"}, short: "Key buckets, in which gateways look for consumers", verbs: []verb{
		{
			name: "list", short: "List the key buckets", operation: "ApiKeyBucketsService_list",
			secret: true, shown: columns{"name", "description", "tags", "isRetrievable", "createdOn"}, empty: "There are none: `gatewright bucket create` makes one.",
		},
		{name: "get", short: "Show a key bucket", operation: "ApiKeyBucketsService_read", takes: []given{bucket}, secret: true},
		{
			name: "create", short: "Make a key bucket", operation: "ApiKeyBucketsService_create",
			long: "The tags project and environmentType (PRODUCTION, PREVIEW or WORKING_COPY) place it for good: gateways elsewhere do not take its keys.",
			takes: []given{
				word("name", "BUCKET", "partners"), description, tags,
				{argument: "isRetrievable", flag: "retrievable", kind: asBool, text: "whether its keys may be shown again; --retrievable=false for never"},
			},
		},
		{name: updateVerb, short: "Change the description and the tags of a key bucket", operation: "ApiKeyBucketsService_update", takes: []given{bucket, description, tags}},
		{
			name: "delete", short: "Delete a key bucket, with its consumers and their keys", operation: "ApiKeyBucketsService_delete", takes: []given{bucket},
			removes: &removal{what: "bucket", below: []counted{{operation: "ApiKeyConsumersService_list", one: "consumer", more: "consumers"}}},
		},
	}}
}

func consumerNoun() noun {
	consumer := word("consumerName", "CONSUMER", "acme")
	return noun{
		name: "consumer", short: "Consumers, who call your API, and their keys",
		verbs: []verb{
			{
				name: "list", short: "List the consumers of a key bucket", operation: "ApiKeyConsumersService_list", secret: true,
				takes: []given{
					inBucket, byTag,
					{argument: "name-prefix", flag: "name-prefix", text: "whose name begins so"},
					{argument: "manager-email", flag: "manager-email", text: "that a person of this address looks after"},
					{argument: "include-api-keys", flag: "keys", kind: asBool, text: "with their newest keys, in JSON"},
				},
				shown: columns{"name", "description", "tags", "createdOn"}, empty: "There are none: `gatewright consumer create` makes one.",
			},
			{
				name: "get", short: "Show a consumer, with its keys and its managers", operation: "ApiKeyConsumersService_read", secret: true,
				takes: []given{
					consumer, inBucket, byTag,
					{argument: "include-api-keys", flag: "keys", kind: asBool, text: "with its newest keys"},
					{argument: "include-managers", flag: "managers", kind: asBool, text: "with its managers"},
					{argument: "include-manager-invites", flag: "invites", kind: asBool, text: "with the invites of managers"},
				},
			},
			{
				name: "create", short: "Make a consumer", operation: "ApiKeyConsumersService_create", made: keyMember, lost: strings.ReplaceAll(keyLost, "{consumerName}", "{name}"),
				takes: []given{
					word("name", "CONSUMER", "acme"), inBucket, description, tags, metadata,
					{argument: "managers", flag: "manager", kind: asList, text: "the address of a person who is invited to look after it"},
					{argument: "with-api-key", flag: "with-key", kind: asBool, text: "with its first key too"},
				},
			},
			{
				name: updateVerb, short: "Change the description, the tags and the metadata of a consumer", operation: "ApiKeyConsumersService_update",
				long:  "What is given is replaced as a whole; --metadata null clears it.",
				takes: []given{consumer, inBucket, description, tags, metadata},
			},
			{
				name: "delete", short: "Delete a consumer, with its keys and managers", operation: "ApiKeyConsumersService_delete", takes: []given{consumer, inBucket, byTag},
				removes: &removal{what: "consumer", below: []counted{
					{operation: "ApiKeyKeysService_list", one: "key", more: "keys"},
					{operation: "ApiKeyConsumerManagers_list", one: "manager", more: "managers"},
				}},
			},
		},
		below: []noun{consumerKeyNoun(), {
			name: "manager", short: "Who looks after a consumer", verbs: []verb{
				{
					name: "list", short: "List the managers of a consumer", operation: "ApiKeyConsumerManagers_list", takes: []given{inBucket, ofConsumer},
					shown: columns{"id", "email", "sub", "createdOn"},
				},
				{
					name: "get", short: "Show a manager, or the invite of one", operation: "ApiKeyConsumerManagers_read",
					takes: []given{word("managerId", "MANAGER_ID", "mgr_"+anID), inBucket, ofConsumer},
				},
				{
					name: "create", short: "Add a manager to a consumer", operation: "ApiKeyConsumerManagers_create",
					takes: []given{
						inBucket, ofConsumer,
						given{argument: "email", flag: "email", text: "the manager's address"}.must("ada@example.com"),
						given{argument: "sub", flag: "sub", text: "who that is to your own pages"}.must("auth0-65f1"),
					},
				},
				{
					name: "delete", short: "Delete a manager, or the invite of one", operation: "ApiKeyConsumerManagers_delete",
					takes: []given{word("managerId", "MANAGER_ID", "mgr_"+anID), inBucket, ofConsumer}, removes: &removal{what: "manager"},
				},
			},
		}},
	}
}

func consumerKeyNoun() noun {
	key := word("keyId", "KEY_ID", "key_"+anID)
	return noun{name: "key", short: "The keys with which a consumer calls", own: (*App).keyCommands, verbs: []verb{
		{
			name: "list", short: "List the keys of a consumer, the newest first", operation: "ApiKeyKeysService_list", secret: true,
			takes: []given{inBucket, ofConsumer}, shown: columns{"id", "key", "description", "expiresOn", "createdOn"}, empty: "There are none: `gatewright consumer key create` makes one.",
		},
		{name: "get", short: "Show a key", operation: "ApiKeyKeysService_get", takes: []given{key, inBucket, ofConsumer}, secret: true},
		{name: updateVerb, short: "Change the description and the end of a key", operation: "ApiKeyKeysService_update", takes: []given{key, inBucket, ofConsumer, description, expires}, made: keyMember},
		{
			name: "delete", short: "Delete a key", operation: "ApiKeyKeysService_delete", takes: []given{key, inBucket, ofConsumer},
			long: "A gateway that has believed it goes on for a minute at most, or for as long as the route says.", removes: &removal{what: "key"},
		},
	}}
}

func projectNoun() noun {
	project := word("projectName", "PROJECT", "shop")
	return noun{name: "project", short: "Projects, which are what is deployed", verbs: []verb{
		{name: "list", short: "List the projects", operation: "ProjectsService_list", shown: columns{"name", "type", "createdOn"}, empty: "There are none: `gatewright deploy` makes one."},
		{name: "get", short: "Show a project", operation: "ProjectsService_read", takes: []given{project}},
		{name: "create", short: "Make a project", operation: "ProjectsService_create", takes: []given{word("name", "PROJECT", "shop")}},
		{
			name: "delete", short: "Delete a project, with its deployments and buckets, and wait until it is gone", operation: "ProjectsService_delete", takes: []given{project}, awaits: "ProjectsService_operation",
			removes: &removal{what: "project", below: []counted{
				{operation: "DeploymentsService_list", one: "deployment", more: "deployments"},
				{operation: "MtlsCertificatesService_list", one: "certificate", more: "certificates"},
				{operation: "ApiKeyConsumersService_list", one: "consumer", more: "consumers", argument: "bucketName", each: func(arguments map[string]any) []string {
					project, _ := arguments["projectName"].(string)
					return files.BucketsOf(project)
				}},
				{more: "variables"}, // of branches, which may have no environment yet
			}},
		},
	}}
}

func environmentNoun() noun {
	environment := word("environmentName", "ENVIRONMENT", "shop-main")
	return noun{name: "environment", short: "Environments of a project, which are branches of it", verbs: []verb{
		{name: "list", short: "List the environments of a project", operation: "EnvironmentsService_list", takes: []given{ofProject}, shown: columns{"name", "branchName", "environmentType", "createdOn"}},
		{name: "get", short: "Show an environment", operation: "EnvironmentsService_read", takes: []given{environment, ofProject}},
		{name: "create", short: "Make an environment of a project", operation: "EnvironmentsService_create", takes: []given{
			ofProject, given{argument: "branchName", flag: "branch", text: "the branch"}.must("next"),
			given{argument: "environmentType", flag: "type", text: "what kind it is", choices: []string{"production", "preview"}}.must("preview"),
		}},
	}}
}

func variableNoun() noun {
	variable := word("variableName", "NAME", "UPSTREAM_URL")
	return noun{name: "variable", also: []string{"variables", "var", "vars"}, short: "Variables that deployments are built with", own: func(a *App) []*cobra.Command { return []*cobra.Command{a.variableSetCommand()} }, verbs: []verb{
		{
			name: "list", short: "List the variables of a branch", operation: "VariablesService_list", takes: []given{ofProject, onBranch},
			shown: columns{"name", "value", "isSecret", "updatedOn"}, empty: "There are none: `gatewright variable set` makes one.",
		},
		{name: "get", short: "Show a variable; the value of a secret is never shown", operation: "VariablesService_read", takes: []given{variable, ofProject, onBranch}},
		{
			name: "delete", short: "Delete a variable", operation: "VariablesService_delete", takes: []given{variable, ofProject, onBranch},
			long: "Deployments keep it until they are built again.", removes: &removal{what: "variable"},
		},
	}}
}

func accountKeyNoun() noun {
	return noun{name: "account-key", short: "Account keys, which open the management API", verbs: []verb{
		{name: "list", short: "List the account keys", operation: "AccountKeysService_list", shown: columns{"id", "label", "scopes", "projects", "expiresOn", "lastUsedOn"}},
		{
			name: "create", short: "Make an account key, which is shown once", operation: "AccountKeysService_create", made: keyMember, lost: "`gatewright account-key delete {id}` revokes it",
			takes: []given{
				given{argument: "label", flag: "label", text: "who or what it is for"}.must("ci"),
				given{argument: "scopes", flag: "scope", kind: asList, allOr: true, text: "what it may, such as deployments:write, or all"}.must("deployments:write"),
				{argument: "projects", flag: "project", kind: asList, allOr: true, text: "a project that it reaches; all without it"},
				{argument: "environments", flag: "environment", kind: asList, text: "a kind of environment that it reaches, production, preview or development; all without it"},
				expires,
				{argument: "confirmDestructive", flag: "confirm-destructive", kind: asBool, text: "whether a person confirms what an assistant removes with it"},
			},
		},
		{
			name: "delete", short: "Revoke an account key", operation: "AccountKeysService_delete",
			takes: []given{word("accountKeyId", "KEY_ID", "akey_"+anID), {argument: "force", flag: "force", kind: asBool, text: "even the last one that may everything"}}, removes: &removal{what: "account key"},
		},
	}}
}

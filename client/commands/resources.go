package commands

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/files"
)

// These arguments are used by several commands.
var (
	bucketParam = parameter{
		argument: "bucketName", flag: "bucket",
		help: "the key bucket, by its name",
	}.mandatory("partners")
	consumerParam = parameter{
		argument: "consumerName", flag: "consumer",
		help: "the consumer, by its name",
	}.mandatory("acme")
	projectParam     = parameter{argument: "projectName", flag: "project", help: "the project"}.mandatory("shop")
	branchParam      = parameter{argument: "branchName", flag: "branch", help: "the branch", kind: asBranch}
	tagFilterParam   = parameter{argument: "tag", flag: "tag", kind: asTags, help: "with this tag alone"}
	descriptionParam = parameter{
		argument: "description", flag: "description", help: "what it is for",
		example: "'of our partners'", emptyIsValue: true,
	}
	expiryParam = parameter{
		argument: "expiresOn", flag: "expires-in", kind: asTime,
		help: "when it ends; never without it",
	}
	tagsParam     = parameter{argument: "tags", flag: "tag", kind: asPairs, help: "a tag of its own"}
	metadataParam = parameter{
		argument: "metadata", flag: "metadata", kind: asJSON,
		help: "what handlers may pass on, an object",
	}
)

// positional returns a positional argument.
func positional(argument, placeholder, example string) parameter {
	return parameter{argument: argument, placeholder: placeholder, example: example}
}

// exampleID is the part of an ID in examples that follows the prefix.
const exampleID = "3b241101e2bb"

// resources returns a function for each resource that has commands. The function returns the resource. Most of the
// commands call one operation each.
func resources() []func() resource {
	return []func() resource{
		bucketResource, consumerResource, projectResource, environmentResource, variableResource, domainResource,
		caResource, certificateResource, tunnelResource, meteringResource, accountKeyResource, logResource, analyticsResource,
	}
}

func bucketResource() resource {
	bucket := positional("bucketName", "BUCKET", "partners")
	return resource{
		name: "bucket", suggestFor: []string{"key-bucket", "key-buckets"},
		short: "Key buckets, in which gateways look for consumers", verbs: []verb{
			{
				name: "list", short: "List the key buckets", operation: "ApiKeyBucketsService_list",
				showsSecrets: true, columns: columns{"name", "description", "tags", "isRetrievable", "createdOn"},
				empty: "There are none: `gatewright bucket create` makes one.",
			},
			{
				name: "get", short: "Show a key bucket", operation: "ApiKeyBucketsService_read", params: []parameter{bucket},
				showsSecrets: true,
			},
			{
				name: "create", short: "Make a key bucket", operation: "ApiKeyBucketsService_create",
				long: "The tags project and environmentType (PRODUCTION, PREVIEW or WORKING_COPY) place it for good: gateways " +
					"elsewhere do not take its keys.",
				params: []parameter{
					positional("name", "BUCKET", "partners"), descriptionParam, tagsParam,
					{
						argument: "isRetrievable", flag: "retrievable", kind: asBool,
						help: "whether its keys may be shown again; --retrievable=false for never",
					},
				},
			},
			{
				name: updateVerb, short: "Change the description and the tags of a key bucket",
				operation: "ApiKeyBucketsService_update", params: []parameter{bucket, descriptionParam, tagsParam},
			},
			{
				name: "delete", short: "Delete a key bucket, with its consumers and their keys",
				operation: "ApiKeyBucketsService_delete", params: []parameter{bucket},
				deletes: &deletion{
					kind:       "bucket",
					dependents: []dependent{{operation: "ApiKeyConsumersService_list", singular: "consumer", plural: "consumers"}},
				},
			},
		},
	}
}

func consumerResource() resource {
	consumer := positional("consumerName", "CONSUMER", "acme")
	return resource{
		name: "consumer", short: "Consumers, who call your API, and their keys",
		verbs: []verb{
			{
				name: "list", short: "List the consumers of a key bucket", operation: "ApiKeyConsumersService_list",
				showsSecrets: true,
				params: []parameter{
					bucketParam, tagFilterParam,
					{argument: "name-prefix", flag: "name-prefix", help: "whose name begins so"},
					{argument: "manager-email", flag: "manager-email", help: "that a person of this address looks after"},
					{argument: "include-api-keys", flag: "keys", kind: asBool, help: "with their newest keys, in JSON"},
				},
				columns: columns{"name", "description", "tags", "createdOn"},
				empty:   "There are none: `gatewright consumer create` makes one.",
			},
			{
				name: "get", short: "Show a consumer, with its keys and its managers", operation: "ApiKeyConsumersService_read",
				showsSecrets: true,
				params: []parameter{
					consumer, bucketParam, tagFilterParam,
					{argument: "include-api-keys", flag: "keys", kind: asBool, help: "with its newest keys"},
					{argument: "include-managers", flag: "managers", kind: asBool, help: "with its managers"},
					{argument: "include-manager-invites", flag: "invites", kind: asBool, help: "with the invites of managers"},
				},
			},
			{
				name: "create", short: "Make a consumer", operation: "ApiKeyConsumersService_create", secretMember: keyMember,
				lostHint: strings.ReplaceAll(keyLostHint, "{consumerName}", "{name}"),
				params: []parameter{
					positional("name", "CONSUMER", "acme"), bucketParam, descriptionParam, tagsParam, metadataParam,
					{
						argument: "managers", flag: "manager", kind: asList,
						help: "the address of a person who is invited to look after it",
					},
					{argument: "with-api-key", flag: "with-key", kind: asBool, help: "with its first key too"},
				},
			},
			{
				name: updateVerb, short: "Change the description, the tags and the metadata of a consumer",
				operation: "ApiKeyConsumersService_update",
				long:      "What is given is replaced as a whole; --metadata null clears it.",
				params:    []parameter{consumer, bucketParam, descriptionParam, tagsParam, metadataParam},
			},
			{
				name: "delete", short: "Delete a consumer, with its keys and managers", operation: "ApiKeyConsumersService_delete",
				params: []parameter{consumer, bucketParam, tagFilterParam},
				deletes: &deletion{kind: "consumer", dependents: []dependent{
					{operation: "ApiKeyKeysService_list", singular: "key", plural: "keys"},
					{operation: "ApiKeyConsumerManagers_list", singular: "manager", plural: "managers"},
				}},
			},
		},
		children: []resource{consumerKeyResource(), {
			name: "manager", short: "Who looks after a consumer", verbs: []verb{
				{
					name: "list", short: "List the managers of a consumer", operation: "ApiKeyConsumerManagers_list",
					params:  []parameter{bucketParam, consumerParam},
					columns: columns{"id", "email", "sub", "createdOn"},
				},
				{
					name: "get", short: "Show a manager, or the invite of one", operation: "ApiKeyConsumerManagers_read",
					params: []parameter{positional("managerId", "MANAGER_ID", "mgr_"+exampleID), bucketParam, consumerParam},
				},
				{
					name: "create", short: "Add a manager to a consumer", operation: "ApiKeyConsumerManagers_create",
					params: []parameter{
						bucketParam, consumerParam,
						parameter{argument: "email", flag: "email", help: "the manager's address"}.mandatory("ada@example.com"),
						parameter{argument: "sub", flag: "sub", help: "who that is to your own pages"}.mandatory("auth0-65f1"),
					},
				},
				{
					name: "delete", short: "Delete a manager, or the invite of one", operation: "ApiKeyConsumerManagers_delete",
					params:  []parameter{positional("managerId", "MANAGER_ID", "mgr_"+exampleID), bucketParam, consumerParam},
					deletes: &deletion{kind: "manager"},
				},
			},
		}},
	}
}

func consumerKeyResource() resource {
	key := positional("keyId", "KEY_ID", "key_"+exampleID)
	return resource{
		name: "key", short: "The keys with which a consumer calls", customCommands: (*App).keyCommands,
		verbs: []verb{
			{
				name: "list", short: "List the keys of a consumer, the newest first", operation: "ApiKeyKeysService_list",
				showsSecrets: true,
				params:       []parameter{bucketParam, consumerParam}, columns: columns{
					"id", "key", "description", "expiresOn",
					"createdOn",
				}, empty: "There are none: `gatewright consumer key create` makes one.",
			},
			{
				name: "get", short: "Show a key", operation: "ApiKeyKeysService_get",
				params: []parameter{key, bucketParam, consumerParam}, showsSecrets: true,
			},
			{
				name: updateVerb, short: "Change the description and the end of a key", operation: "ApiKeyKeysService_update",
				params: []parameter{key, bucketParam, consumerParam, descriptionParam, expiryParam}, secretMember: keyMember,
			},
			{
				name: "delete", short: "Delete a key", operation: "ApiKeyKeysService_delete",
				params:  []parameter{key, bucketParam, consumerParam},
				long:    "A gateway that has believed it goes on for a minute at most, or for as long as the route says.",
				deletes: &deletion{kind: "key"},
			},
		},
	}
}

func projectResource() resource {
	project := positional("projectName", "PROJECT", "shop")
	return resource{name: "project", short: "Projects, which are what is deployed", verbs: []verb{
		{
			name: "list", short: "List the projects", operation: "ProjectsService_list",
			columns: columns{"name", "type", "createdOn"}, empty: "There are none: `gatewright deploy` makes one.",
		},
		{name: "get", short: "Show a project", operation: "ProjectsService_read", params: []parameter{project}},
		{
			name: "create", short: "Make a project", operation: "ProjectsService_create",
			params: []parameter{positional("name", "PROJECT", "shop")},
		},
		{
			name: "delete", short: "Delete a project, with its deployments and buckets, and wait until it is gone",
			operation: "ProjectsService_delete", params: []parameter{project}, statusOperation: "ProjectsService_operation",
			deletes: &deletion{kind: "project", dependents: []dependent{
				{operation: "DeploymentsService_list", singular: "deployment", plural: "deployments"},
				{operation: "MtlsCertificatesService_list", singular: "certificate", plural: "certificates"},
				{
					operation: "ApiKeyConsumersService_list", singular: "consumer", plural: "consumers", argument: "bucketName",
					values: func(arguments map[string]any) []string {
						project, _ := arguments["projectName"].(string)
						return files.ProjectBucketNames(project)
					},
				},
				{plural: "variables"}, // no operation lists them: they belong to branches, which may have no environment yet
			}},
		},
	}}
}

func environmentResource() resource {
	environment := positional("environmentName", "ENVIRONMENT", "shop-main")
	return resource{name: "environment", short: "Environments of a project, which are branches of it", verbs: []verb{
		{
			name: "list", short: "List the environments of a project", operation: "EnvironmentsService_list",
			params: []parameter{projectParam}, columns: columns{"name", "branchName", "environmentType", "createdOn"},
		},
		{
			name: "get", short: "Show an environment", operation: "EnvironmentsService_read",
			params: []parameter{environment, projectParam},
		},
		{
			name: "create", short: "Make an environment of a project", operation: "EnvironmentsService_create",
			params: []parameter{
				projectParam, branchParam.mandatory("next"),
				parameter{
					argument: "environmentType", flag: "type", help: "what kind it is",
					choices: []string{"production", "preview"},
				}.mandatory("preview"),
			},
		},
	}}
}

func variableResource() resource {
	variable := positional("variableName", "NAME", "UPSTREAM_URL")
	return resource{
		name: "variable", suggestFor: []string{"variables", "var", "vars"},
		short: "Variables that deployments are built with", customCommands: func(a *App) []*cobra.Command {
			return []*cobra.Command{a.variableSetCommand()}
		}, verbs: []verb{
			{
				name: "list", short: "List the variables of a branch", operation: "VariablesService_list",
				params:  []parameter{projectParam, branchParam.withDefault(defaultBranch)},
				columns: columns{"name", "value", "isSecret", "updatedOn"},
				empty:   "There are none: `gatewright variable set` makes one.",
			},
			{
				name: "get", short: "Show a variable; the value of a secret is never shown", operation: "VariablesService_read",
				params: []parameter{variable, projectParam, branchParam.withDefault(defaultBranch)},
			},
			{
				name: "delete", short: "Delete a variable", operation: "VariablesService_delete",
				params: []parameter{variable, projectParam, branchParam.withDefault(defaultBranch)},
				long:   "Deployments keep it until they are built again.", deletes: &deletion{kind: "variable"},
			},
		},
	}
}

func accountKeyResource() resource {
	return resource{name: "account-key", short: "Account keys, which open the management API", verbs: []verb{
		{
			name: "list", short: "List the account keys", operation: "AccountKeysService_list",
			columns: columns{"id", "label", "scopes", "projects", "expiresOn", "lastUsedOn"},
		},
		{
			name: "create", short: "Make an account key, which is shown once", operation: "AccountKeysService_create",
			secretMember: keyMember, lostHint: "`gatewright account-key delete {id}` revokes it",
			params: []parameter{
				parameter{argument: "label", flag: "label", help: "who or what it is for"}.mandatory("ci"),
				parameter{
					argument: "scopes", flag: "scope", kind: asList, allowAll: true,
					help: "what it may, such as deployments:write, or all",
				}.mandatory("deployments:write"),
				{
					argument: "projects", flag: "project", kind: asList, allowAll: true,
					help: "a project that it reaches; all without it",
				},
				{
					argument: "environments", flag: "environment", kind: asList,
					help: "a kind of environment that it reaches, production, preview or development; all without it",
				},
				expiryParam,
				{
					argument: "confirmDestructive", flag: "confirm-destructive", kind: asBool,
					help: "whether a person confirms what an assistant removes with it",
				},
			},
		},
		{
			name: "delete", short: "Revoke an account key", operation: "AccountKeysService_delete",
			params: []parameter{
				positional("accountKeyId", "KEY_ID", "akey_"+exampleID),
				{argument: "force", flag: "force", kind: asBool, help: "even the last one that may everything"},
			},
			deletes: &deletion{kind: "account key"},
		},
	}}
}

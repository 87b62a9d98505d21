package files

import (
	"encoding/json"
	"slices"
	"strings"
)

// Kind is a kind of object that files describe.
type Kind struct {
	// Member is the name of the list in files. Singular is the name of an object of the kind in messages.
	Member, Singular string
	// Key is the member that holds the name of an object. The name is unique within the parent, and never changes.
	Key string
	// List, Read, Create, Update and Delete are the names of the operations, "" for a missing operation. Objects of a
	// kind without List, such as branches, are taken to exist always.
	List, Read, Create, Update, Delete string
	// PathParameter is the path parameter for the object, in its own operations and in those of its children. ID is the
	// member of a list entry that has the parameter's value. CreatedID is the member of Create's response that has this
	// value, "" if it is the same member as ID.
	PathParameter, ID, CreatedID string
	// Excluded maps members of request bodies that files cannot have to the reason.
	Excluded map[string]string
	// Secret is the name of a field that holds a secret if the field that SecretIf names is true. Other secrets are
	// declared in their schemas.
	Secret, SecretIf string
	// UnorderedFields are the fields whose values are lists without a significant order.
	UnorderedFields []string
	// LocalFields are fields whose values only make sense in this installation. Exports omit these fields.
	LocalFields []string
	// CaseInsensitive says that names are compared without regard to case.
	CaseInsensitive bool
	// NameOnly says that files may have the name of an object in place of the object.
	NameOnly bool
	// StatusOperation is the operation that returns the progress of a deletion.
	StatusOperation string
	// Embedded are the members of the parent's list entry that contain the objects of this kind, each with the query
	// parameter that requests the member. So these objects need no list request for each parent. ParentMember is the
	// member of the parent's create request for objects that are created with the parent.
	Embedded     map[string]string
	ParentMember string
	// SiblingIDs declares a field that has the names of siblings in files, although the API expects their IDs.
	SiblingIDs *siblingIDs
	// SeparateField is a field that is read and written by operations of its own.
	SeparateField *separateField
	// Convert converts a list entry to the members of request bodies. It is nil if the members are the same.
	Convert func(map[string]Value) map[string]Value
	// Dependents maps the names of objects that are deleted with an object of this kind, as messages have them, to the
	// operations that list these objects.
	Dependents map[string]string
	// UncountedDependents is the name of further objects that are deleted with an object of this kind, but that cannot be
	// counted, because no operation lists them all.
	UncountedDependents string
	// Children are the kinds of objects within an object.
	Children []*Kind

	parent *Kind
}

// siblingIDs declares that Argument of a request body has the IDs of the siblings that Field names. Member is the list
// of these siblings.
type siblingIDs struct{ Argument, Field, Member string }

// separateField is a field that operations of its own read and write as a whole.
type separateField struct {
	Field, Read, Write string
	// Unique is a member of the field's elements. The values of this member are unique in the account. Unique is "" if
	// several objects can have the same values.
	Unique string
	// Fixed are the other members of Write's body, with their constant values.
	Fixed map[string]Value
}

// child returns the kind within k whose list is member, nil for none.
func (k *Kind) child(member string) *Kind { return findKind(k.Children, member) }

func findKind(all []*Kind, member string) *Kind {
	if i := slices.IndexFunc(all, func(k *Kind) bool { return k.Member == member }); i >= 0 {
		return all[i]
	}
	return nil
}

// normalize returns a name for comparisons: two names belong to the same object if their normalized names are equal.
func (k *Kind) normalize(name string) string {
	if k.CaseInsensitive {
		return strings.ToLower(name)
	}
	return name
}

// flatten returns kinds and their descendants, parents first.
func flatten(kinds []*Kind) (list []*Kind) {
	for _, k := range kinds {
		list = append(append(list, k), flatten(k.Children)...)
	}
	return list
}

const (
	meteringBucketsMember = "meteringBuckets"
	domainsMember         = "customDomains"
	projectsMember        = "projects"
	keyBucketsMember      = "keyBuckets"
)

// Kinds returns the kinds that files describe, in the order of creation. Each call returns a new list.
func Kinds() []*Kind {
	kinds := []*Kind{projectKind(), keyBucketKind(), tunnelKind(), meteringBucketKind(), {
		Member: "caCertificates", Singular: "CA certificate", Key: "name", PathParameter: "id", ID: "id",
		List: "ClientMtlsCaCertificatesService_list", Read: "ClientMtlsCaCertificatesService_read",
		Create: "ClientMtlsCaCertificatesService_create", Delete: "ClientMtlsCaCertificatesService_delete",
	}, {
		Member: domainsMember, Singular: "custom domain", Key: "hostname", PathParameter: "hostname", ID: "hostname",
		CaseInsensitive: true, Convert: domainFields,
		List: "CustomDomainsService_list", Read: "CustomDomainsService_read", Create: "CustomDomainsService_create",
		Update: "CustomDomainsService_update", Delete: "CustomDomainsService_delete",
		LocalFields: []string{"deploymentName", "stage"},
		Excluded: map[string]string{
			"isDefault": "it is for a hostname that leads to several deployments, and files have one",
		},
	}}
	for _, k := range kinds {
		k.setParents()
	}
	return kinds
}

func (k *Kind) setParents() {
	for _, child := range k.Children {
		child.parent = k
		child.setParents()
	}
}

func projectKind() *Kind {
	return &Kind{
		Member: projectsMember, Singular: "project", Key: "name", PathParameter: "projectName", ID: "name",
		List: "ProjectsService_list", Read: "ProjectsService_read", Create: "ProjectsService_create",
		Delete: "ProjectsService_delete", StatusOperation: "ProjectsService_operation",
		Dependents: map[string]string{
			"deployments":  "DeploymentsService_list",
			"certificates": "MtlsCertificatesService_list",
		},
		// No operation lists all variables: they belong to branches, and no operation lists the branches that have
		// no environment yet.
		UncountedDependents: "variables",
		Children: []*Kind{{
			Member: "environments", Singular: "environment", Key: "branchName", ID: "branchName",
			List: "EnvironmentsService_list", Create: "EnvironmentsService_create",
		}, {
			Member: "branches", Singular: "branch", Key: "name", PathParameter: "branchName", ID: "name",
			Children: []*Kind{{
				Member: "variables", Singular: "variable", Key: "name", PathParameter: "variableName", ID: "name", Secret: "value",
				SecretIf: "isSecret",
				List:     "VariablesService_list", Read: "VariablesService_read", Create: "VariablesService_create",
				Update: "VariablesService_update", Delete: "VariablesService_delete",
			}},
		}, {
			Member: "mtlsCertificates", Singular: "mTLS certificate", Key: "name", PathParameter: "mtlsCertificateId", ID: "id",
			UnorderedFields: []string{"environments"}, Convert: certificateFields,
			List: "MtlsCertificatesService_list", Read: "MtlsCertificatesService_read", Create: "MtlsCertificatesService_create",
			Update: "MtlsCertificatesService_update", Delete: "MtlsCertificatesService_delete",
		}},
	}
}

func keyBucketKind() *Kind {
	return &Kind{
		Member: keyBucketsMember, Singular: "key bucket", Key: "name", PathParameter: "bucketName", ID: "name",
		List: "ApiKeyBucketsService_list", Read: "ApiKeyBucketsService_read", Create: "ApiKeyBucketsService_create",
		Update: "ApiKeyBucketsService_update", Delete: "ApiKeyBucketsService_delete",
		Dependents: map[string]string{"consumers": "ApiKeyConsumersService_list"},
		Children: []*Kind{{
			Member: "consumers", Singular: "consumer", Key: "name", PathParameter: "consumerName", ID: "name",
			List: "ApiKeyConsumersService_list", Read: "ApiKeyConsumersService_read", Create: "ApiKeyConsumersService_create",
			Update: "ApiKeyConsumersService_update", Delete: "ApiKeyConsumersService_delete",
			Dependents: map[string]string{"keys": "ApiKeyKeysService_list", "managers": "ApiKeyConsumerManagers_list"},
			Children: []*Kind{{
				Member: "managers", Singular: "manager", Key: "email", PathParameter: "managerId", ID: "id", CaseInsensitive: true,
				NameOnly: true,
				List:     "ApiKeyConsumerManagers_list", Read: "ApiKeyConsumerManagers_read",
				Create: "ApiKeyConsumerManagers_create",
				Delete: "ApiKeyConsumerManagers_delete", ParentMember: "managers",
				Embedded: map[string]string{"managers": "include-managers", "managerInvites": "include-manager-invites"},
			}, {
				// A key's text is shown once, to the person who creates the key. So files only have its lifetime.
				Member: "keys", Singular: "key", Key: "description", PathParameter: "keyId", ID: "id",
				List: "ApiKeyKeysService_list", Read: "ApiKeyKeysService_get", Update: "ApiKeyKeysService_update",
				Embedded: map[string]string{"apiKeys": "include-api-keys"},
				Excluded: map[string]string{"key": "the text of a key is told once, to whoever makes it"},
			}},
		}},
	}
}

func tunnelKind() *Kind {
	return &Kind{
		Member: "tunnels", Singular: "tunnel", Key: "name", PathParameter: "tunnelId", ID: "id", CreatedID: "tunnelId",
		List: "TunnelService_list", Read: "TunnelService_read", Create: "TunnelService_create",
		Delete: "TunnelService_delete", StatusOperation: "TunnelService_getProvisioningStatus",
		SeparateField: &separateField{
			Field: "services", Read: "TunneledServicesService_getServiceConfiguration",
			Write: "TunneledServicesService_putServiceConfiguration", Unique: "name",
			Fixed: map[string]Value{"version": Value("1")},
		},
	}
}

func meteringBucketKind() *Kind {
	return &Kind{
		// A metering bucket has only an ID and no name in the API, so its plans identify it.
		Member: meteringBucketsMember, Singular: "metering bucket", Key: "name", PathParameter: "bucketId", ID: "id",
		List: "MeteringBucketsService_list", Read: "MeteringBucketsService_read", Create: "MeteringBucketsService_create",
		Delete: "MeteringBucketsService_delete",
		Dependents: map[string]string{
			"plans":         "MeteringPlansService_list",
			"subscriptions": "MeteringSubscriptionsService_list",
		},
		Children: []*Kind{{
			Member: "plans", Singular: "plan", Key: "planExternalId", PathParameter: "planId", ID: "id",
			List: "MeteringPlansService_list", Read: "MeteringPlansService_read", Create: "MeteringPlansService_create",
			Update: "MeteringPlansService_update", Delete: "MeteringPlansService_delete",
		}, {
			Member: "subscriptions", Singular: "subscription", Key: "subscriptionExternalId", PathParameter: "subscriptionId",
			ID:   "id",
			List: "MeteringSubscriptionsService_list", Read: "MeteringSubscriptionsService_read",
			Create: "MeteringSubscriptionsService_create", Update: "MeteringSubscriptionsService_update",
			Delete:     "MeteringSubscriptionsService_delete",
			SiblingIDs: &siblingIDs{Argument: "planIds", Field: "planExternalIds", Member: "plans"},
			Excluded: map[string]string{
				"planIds": "they are those of planExternalIds",
				"prorate": "it is for one period, and nothing that stays",
			},
		}},
	}
}

// Unsupported returns groups of operations that can list and create objects, but do not belong to a Kind, and single
// operations that this package does not use. The values are the reasons.
func Unsupported() map[string]string {
	return map[string]string{ //nolint:gosec // G101: these are names of operations
		"AccountKeysService":       "an account key is told once, to whoever makes it, and a file has no place for it",
		"DeploymentsService":       "what is deployed is a project's folder, by `gatewright deploy`",
		"TunneledServicesService":  "it is the field services of a tunnel",
		"ApiKeyKeysService_create": "the text of a key is told once: `gatewright consumer key create`",
	}
}

// certificateFields replaces the member environments of a list entry, which is a map of names to booleans, by the list
// of the enabled environments. Request bodies have such a list.
func certificateFields(listed map[string]Value) map[string]Value {
	var enabled map[string]bool
	if json.Unmarshal(listed["environments"], &enabled) != nil {
		return listed
	}
	list := []string{}
	for name, isEnabled := range enabled {
		if isEnabled {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	listed["environments"] = mustMarshal(list)
	return listed
}

// domainFields adds the members deploymentName, stage and isAlias of request bodies to a list entry. A list entry has a
// list of deployments. domainFields uses the default deployment, or the first one if none is the default.
func domainFields(listed map[string]Value) map[string]Value {
	var deployments []struct {
		DeploymentName, Stage Value
		IsDefault             bool
	}
	_ = json.Unmarshal(listed["deployments"], &deployments)
	for i, d := range deployments {
		if d.IsDefault || i == 0 {
			listed["deploymentName"], listed["stage"] = d.DeploymentName, d.Stage
		}
	}
	listed["isAlias"] = mustMarshal(string(listed["provider"]) == `"alias"`)
	return listed
}

// mustMarshal encodes a value that can always be encoded.
func mustMarshal(v any) Value {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // impossible for the texts, booleans, lists and maps that callers pass
	}
	return text
}

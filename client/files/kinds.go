package files

import (
	"encoding/json"
	"slices"
	"strings"
)

// Kind is a kind of object that files have.
type Kind struct {
	// Member is the list of them in files, and One what one is called.
	Member, One string
	// Key is the member that is the name of one: unique among those of a parent, and never changed.
	Key string
	// List, Read, Create, Update and Delete are the operations, "" for what cannot be done. All of a kind without List are always
	// there, such as branches.
	List, Read, Create, Update, Delete string
	// Argument is what the operations call one in their path, or its children's; ID is the member of what is listed that it takes,
	// and Made that of what is made where that is another.
	Argument, ID, Made string
	// Hides are members of the bodies that no file has, each for a reason.
	Hides map[string]string
	// Secret is the field that holds a secret wherever the field SecretIf is true; other secrets are declared as such.
	Secret, SecretIf string
	// Unordered are fields whose lists have no order.
	Unordered []string
	// Local are fields that name what another installation does not have, and that no export has.
	Local []string
	// Folds says that names are the same in any case of letters.
	Folds bool
	// Short says that a text in place of an object is the name of one.
	Short bool
	// Awaits is the operation that tells how a deletion goes on.
	Awaits string
	// Within are members of the parent's own list that have these, each by what asks for it, in place of a list for each parent;
	// WithParent is the member of the parent's body that takes those that are made with it.
	Within     map[string]string
	WithParent string
	// Pairs is the argument that takes the ids of those siblings that a field names.
	Pairs *pairs
	// Apart is the field that has operations of its own.
	Apart *apart
	// Fields reads what is listed where its members are not those of the bodies, nil for one by one.
	Fields func(map[string]Value) map[string]Value
	// Counted are lists of what goes with one, by what they are called.
	Counted map[string]string
	// Uncounted is what goes with one too, and has no list with all of it.
	Uncounted string
	// Below are kinds of objects within one.
	Below []*Kind

	parent *Kind
}

// pairs says which argument of a body has the ids of what a field names.
type pairs struct{ Argument, Field, Member string }

// apart is a field that is read and written by operations of its own, as a whole.
type apart struct {
	Field, Read, Write string
	// Unique is the member by which the elements of the field are one object's alone in the account, "" where others may have such too.
	Unique string
	// Fixed are the other members of the body.
	Fixed map[string]Value
}

// below is a kind within one, nil for none.
func (k *Kind) below(member string) *Kind { return find(k.Below, member) }

func find(all []*Kind, member string) *Kind {
	if i := slices.IndexFunc(all, func(k *Kind) bool { return k.Member == member }); i >= 0 {
		return all[i]
	}
	return nil
}

func (k *Kind) fold(name string) string {
	if k.Folds {
		return strings.ToLower(name)
	}
	return name
}

// all lists kinds with those below them, parents first.
func all(kinds []*Kind) (list []*Kind) {
	for _, k := range kinds {
		list = append(append(list, k), all(k.Below)...)
	}
	return list
}

const (
	metering       = "meteringBuckets"
	domains        = "customDomains"
	projectsMember = "projects"
	bucketsMember  = "keyBuckets"
)

// Kinds are the kinds that files have, in the order in which objects are made. Each call makes a new list.
func Kinds() []*Kind {
	kinds := []*Kind{projectKind(), bucketKind(), tunnelKind(), meteringKind(), {
		Member: "caCertificates", One: "CA certificate", Key: "name", Argument: "id", ID: "id",
		List: "ClientMtlsCaCertificatesService_list", Read: "ClientMtlsCaCertificatesService_read", Create: "ClientMtlsCaCertificatesService_create", Delete: "ClientMtlsCaCertificatesService_delete",
	}, {
		Member: domains, One: "custom domain", Key: "hostname", Argument: "hostname", ID: "hostname", Folds: true, Fields: domainFields,
		List: "CustomDomainsService_list", Read: "CustomDomainsService_read", Create: "CustomDomainsService_create", Update: "CustomDomainsService_update", Delete: "CustomDomainsService_delete",
		Local: []string{"deploymentName", "stage"},
		Hides: map[string]string{"isDefault": "it is for a hostname that leads to several deployments, and files have one"},
	}}
	for _, k := range kinds {
		k.adopt()
	}
	return kinds
}

func (k *Kind) adopt() {
	for _, b := range k.Below {
		b.parent = k
		b.adopt()
	}
}

func projectKind() *Kind {
	return &Kind{
		Member: projectsMember, One: "project", Key: "name", Argument: "projectName", ID: "name",
		List: "ProjectsService_list", Read: "ProjectsService_read", Create: "ProjectsService_create", Delete: "ProjectsService_delete", Awaits: "ProjectsService_operation",
		Counted:   map[string]string{"deployments": "DeploymentsService_list", "certificates": "MtlsCertificatesService_list"},
		Uncounted: "variables", // of branches, which may have no environment yet
		Below: []*Kind{{
			Member: "environments", One: "environment", Key: "branchName", ID: "branchName",
			List: "EnvironmentsService_list", Create: "EnvironmentsService_create",
		}, {
			Member: "branches", One: "branch", Key: "name", Argument: "branchName", ID: "name",
			Below: []*Kind{{
				Member: "variables", One: "variable", Key: "name", Argument: "variableName", ID: "name", Secret: "value", SecretIf: "isSecret",
				List: "VariablesService_list", Read: "VariablesService_read", Create: "VariablesService_create", Update: "VariablesService_update", Delete: "VariablesService_delete",
			}},
		}, {
			Member: "mtlsCertificates", One: "mTLS certificate", Key: "name", Argument: "mtlsCertificateId", ID: "id", Unordered: []string{"environments"}, Fields: certificateFields,
			List: "MtlsCertificatesService_list", Read: "MtlsCertificatesService_read", Create: "MtlsCertificatesService_create", Update: "MtlsCertificatesService_update", Delete: "MtlsCertificatesService_delete",
		}},
	}
}

func bucketKind() *Kind {
	return &Kind{
		Member: bucketsMember, One: "key bucket", Key: "name", Argument: "bucketName", ID: "name",
		List: "ApiKeyBucketsService_list", Read: "ApiKeyBucketsService_read", Create: "ApiKeyBucketsService_create", Update: "ApiKeyBucketsService_update", Delete: "ApiKeyBucketsService_delete",
		Counted: map[string]string{"consumers": "ApiKeyConsumersService_list"},
		Below: []*Kind{{
			Member: "consumers", One: "consumer", Key: "name", Argument: "consumerName", ID: "name",
			List: "ApiKeyConsumersService_list", Read: "ApiKeyConsumersService_read", Create: "ApiKeyConsumersService_create", Update: "ApiKeyConsumersService_update", Delete: "ApiKeyConsumersService_delete",
			Counted: map[string]string{"keys": "ApiKeyKeysService_list", "managers": "ApiKeyConsumerManagers_list"},
			Below: []*Kind{{
				Member: "managers", One: "manager", Key: "email", Argument: "managerId", ID: "id", Folds: true, Short: true,
				List: "ApiKeyConsumerManagers_list", Read: "ApiKeyConsumerManagers_read", Create: "ApiKeyConsumerManagers_create", Delete: "ApiKeyConsumerManagers_delete", WithParent: "managers",
				Within: map[string]string{"managers": "include-managers", "managerInvites": "include-manager-invites"},
			}, {
				// A key is made by a person, who is told its text once; a file has how long it lasts.
				Member: "keys", One: "key", Key: "description", Argument: "keyId", ID: "id",
				List: "ApiKeyKeysService_list", Read: "ApiKeyKeysService_get", Update: "ApiKeyKeysService_update",
				Within: map[string]string{"apiKeys": "include-api-keys"},
				Hides:  map[string]string{"key": "the text of a key is told once, to whoever makes it"},
			}},
		}},
	}
}

func tunnelKind() *Kind {
	return &Kind{
		Member: "tunnels", One: "tunnel", Key: "name", Argument: "tunnelId", ID: "id", Made: "tunnelId",
		List: "TunnelService_list", Read: "TunnelService_read", Create: "TunnelService_create", Delete: "TunnelService_delete", Awaits: "TunnelService_getProvisioningStatus",
		Apart: &apart{
			Field: "services", Read: "TunneledServicesService_getServiceConfiguration", Write: "TunneledServicesService_putServiceConfiguration", Unique: "name",
			Fixed: map[string]Value{"version": Value("1")},
		},
	}
}

func meteringKind() *Kind {
	return &Kind{
		// The API gives a metering bucket an id alone: it is known by its plans.
		Member: metering, One: "metering bucket", Key: "name", Argument: "bucketId", ID: "id",
		List: "MeteringBucketsService_list", Read: "MeteringBucketsService_read", Create: "MeteringBucketsService_create", Delete: "MeteringBucketsService_delete",
		Counted: map[string]string{"plans": "MeteringPlansService_list", "subscriptions": "MeteringSubscriptionsService_list"},
		Below: []*Kind{{
			Member: "plans", One: "plan", Key: "planExternalId", Argument: "planId", ID: "id",
			List: "MeteringPlansService_list", Read: "MeteringPlansService_read", Create: "MeteringPlansService_create", Update: "MeteringPlansService_update", Delete: "MeteringPlansService_delete",
		}, {
			Member: "subscriptions", One: "subscription", Key: "subscriptionExternalId", Argument: "subscriptionId", ID: "id",
			List: "MeteringSubscriptionsService_list", Read: "MeteringSubscriptionsService_read", Create: "MeteringSubscriptionsService_create", Update: "MeteringSubscriptionsService_update", Delete: "MeteringSubscriptionsService_delete",
			Pairs: &pairs{Argument: "planIds", Field: "planExternalIds", Member: "plans"},
			Hides: map[string]string{"planIds": "they are those of planExternalIds", "prorate": "it is for one period, and nothing that stays"},
		}},
	}
}

// Left are the groups of operations that list, make and delete, and are no kind of files, each with its reason.
func Left() map[string]string {
	return map[string]string{ //nolint:gosec // G101: they are names of operations
		"AccountKeysService":       "an account key is told once, to whoever makes it, and a file has no place for it",
		"DeploymentsService":       "what is deployed is a project's folder, by `gatewright deploy`",
		"TunneledServicesService":  "it is the field services of a tunnel",
		"ApiKeyKeysService_create": "the text of a key is told once: `gatewright consumer key create`",
	}
}

// certificateFields has the kinds of environment as the bodies have them: a list.
func certificateFields(listed map[string]Value) map[string]Value {
	var enabled map[string]bool
	if json.Unmarshal(listed["environments"], &enabled) != nil {
		return listed
	}
	list := []string{}
	for name, on := range enabled {
		if on {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	listed["environments"] = marshal(list)
	return listed
}

// domainFields has of the deployments that a hostname leads to the one that is served.
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
	listed["isAlias"] = marshal(string(listed["provider"]) == `"alias"`)
	return listed
}

// marshal writes what always can be written.
func marshal(v any) Value {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // of texts, lists and maps of texts
	}
	return text
}

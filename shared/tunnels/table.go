package tunnels

import "github.com/gatewright/gatewright/shared/store"

const (
	// tunnelSpace has the tunnels (record), read one by one.
	tunnelSpace store.Space = "tunnel"
	// registerSpace has the names of an account's tunnels and services (register): lists and
	// changes of names read it.
	registerSpace store.Space = "tunnel-register"
	// tokenSpace has what a token leads to (tokenRecord), by the token's keyed hash. Whoever
	// shows a token is known by one read.
	tokenSpace store.Space = "tunnel-token"
	// configurationSpace has what was put last for each tunnel (configuration). Those of an
	// account are a partition: who deletes a project looks at all of them.
	configurationSpace store.Space = "tunnel-configuration"
	// serviceSpace has the services as they are provisioned (serviceRecord). Those of an
	// account are a partition, by their names: a gateway reads one of them, a tunnel's
	// operations all.
	serviceSpace store.Space = "tunnel-service"
)

func tunnelKey(accountID, tunnelID string) store.Key { return tunnelSpace.Key(accountID, tunnelID) }

func registerKey(accountID string) store.Key { return registerSpace.Key(accountID) }

// IsTunnel reports whether the record at a key is a tunnel's.
func IsTunnel(key store.Key) bool { return tunnelSpace.PartsOf(key.PK) != nil }

// IsCredential reports whether the record at a key is what a tunnel's token is known by: while it
// is not there, no agent connects with that token.
func IsCredential(key store.Key) bool { return tokenSpace.PartsOf(key.PK) != nil }

func tokenKey(hash string) store.Key { return tokenSpace.Key(hash) }

func configurationPartition(accountID string) string { return configurationSpace.Partition(accountID) }

func configurationKey(accountID, tunnelID string) store.Key {
	return store.In(configurationPartition(accountID), tunnelID)
}

func servicePartition(accountID string) string { return serviceSpace.Partition(accountID) }

func serviceKey(accountID, name string) store.Key {
	return store.In(servicePartition(accountID), name)
}

/// Which copies must have a write before it is acknowledged; the raw values are the protocol's.
package enum DurabilityLevel: UInt8, Hashable, Sendable {
    case majority = 1
    case majorityAndPersistOnActive = 2
    case persistToMajority = 3
}

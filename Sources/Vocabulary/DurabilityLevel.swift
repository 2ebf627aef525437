/// How many copies must have a write before it is answered; the numbers are the wire's.
package enum DurabilityLevel: UInt8, Hashable, Sendable {
    case majority = 1
    case majorityAndPersistOnActive = 2
    case persistToMajority = 3
}

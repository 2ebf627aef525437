package import Bytes

/// How the cluster stores new passwords; an administrator may change it.
///
/// A change has effect on passwords that are set from then on.
package struct PasswordSettings: Hashable, Sendable, CodedFields {
    /// From the least rounds of RFC 5802 to the most that clients accept.
    package static let iterationsRange: ClosedRange<UInt64> = 4_096...1_000_000

    /// Rounds of PBKDF2 (`scramShaIterations`).
    package var iterations: UInt32 = 60_000
    /// Whether new passwords have keys for SCRAM-SHA1, which is then offered (`scramSha1Enabled`).
    package var offersSHA1 = false

    package init() {}

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&iterations, "iterations")
        try coder.require(Self.iterationsRange.contains(UInt64(iterations)), "iterations")
        try coder.field(&offersSHA1, "SHA1")
    }
}

import Orchestration
import Testing
import Vocabulary

/// Which authorities a renewal of the shared secret keeps, and when it makes another one.
@Suite struct RenewedAuthoritiesTests {
    private static let day: UInt64 = 86_400_000
    private let now: UInt64 = 1_796_000_000_000

    /// The secret of a cluster of two nodes; `replacedDaysAgo` has an authority each, nil for the newest one.
    private func secret(_ replacedDaysAgo: UInt64?..., boxes: [UInt16] = [1, 2]) -> SharedSecret {
        var secret = SharedSecret()
        secret.boxes = boxes.map { .init(node: NodeNumber($0), sealed: [1]) }
        secret.authorities = replacedDaysAgo.enumerated().map { place, days in
            var record = AuthorityRecord()
            record.certificate = [UInt8(place + 1)]
            record.replacedAt = days.map { now - $0 * Self.day } ?? 0
            return record
        }
        return secret
    }

    private func renewed(
        _ secret: SharedSecret,
        _ change: AuthorityRenewal = .keep,
        hasKey: Bool = true
    ) -> RenewedAuthorities {
        RenewedAuthorities(
            change,
            of: secret,
            members: [NodeNumber(1), NodeNumber(2)],
            hasKey: hasKey,
            at: now
        )
    }

    private func kept(_ renewed: RenewedAuthorities) -> [UInt8] {
        renewed.kept.flatMap(\.certificate)
    }

    @Test func clusterWithoutAnAuthorityGetsOne() {
        let first = renewed(secret())
        #expect(first.kept.isEmpty && first.needsNew)
        let made = first.adding([9], signedByReplaced: [], at: now)
        #expect(made.map(\.certificate) == [[9]] && made[0].addedAt == now)
        #expect(made[0].replacedAt == 0)
    }

    @Test func membersThatStayKeepTheirAuthority() {
        let same = renewed(secret(nil))
        #expect(kept(same) == [1] && !same.needsNew)
        // A node that joins has no box yet.
        #expect(!renewed(secret(nil, boxes: [1])).needsNew)
    }

    @Test func removedNodeMakesAnotherAuthorityInFrontOfTheFormerOne() {
        let removed = renewed(secret(nil, boxes: [1, 2, 3]))
        #expect(kept(removed) == [1] && removed.needsNew)
        let made = removed.adding([9], signedByReplaced: [8], at: now)
        #expect(made.map(\.certificate) == [[9], [1]])
        #expect(made.map(\.replacedAt) == [0, now])
        #expect(made.map(\.crossCertificate) == [[8], []])
    }

    @Test func authorityWhoseKeyTheMembersLackIsReplaced() {
        let lost = renewed(secret(nil), hasKey: false)
        #expect(kept(lost) == [1] && lost.needsNew)
    }

    @Test func replacedAuthorityIsDroppedAfter30Days() {
        #expect(kept(renewed(secret(nil, 30))) == [1, 2])
        #expect(kept(renewed(secret(nil, 31))) == [1])
        #expect(kept(renewed(secret(nil, 29, 31))) == [1, 2])
        #expect(!RenewedAuthorities.areDue(in: secret(nil, 30), at: now))
        #expect(RenewedAuthorities.areDue(in: secret(nil, 31), at: now))
        #expect(RenewedAuthorities.areDue(in: secret(), at: now))
    }

    @Test func regenerateAddsAuthorityAndNextRegenerateDropsReplacedOnes() {
        let first = renewed(secret(nil), .regenerate)
        #expect(kept(first) == [1] && first.needsNew)
        let second = renewed(secret(nil, 1), .regenerate)
        #expect(kept(second) == [1] && !second.needsNew)
        #expect(kept(renewed(secret(nil, 1, 2), .regenerate)) == [1])
    }

    @Test func crossCertificateEndsWithTheAuthorityThatSignedIt() {
        var three = secret(nil, 1, 31)
        three.authorities[0].crossCertificate = [7]
        three.authorities[1].crossCertificate = [8]
        #expect(renewed(three).kept.map(\.crossCertificate) == [[7], []])
        #expect(renewed(three, .regenerate).kept.map(\.crossCertificate) == [[]])
    }

    @Test func orderAfterARemovalKeepsTheFormerAuthority() {
        let removed = renewed(secret(nil, 1, boxes: [1, 2, 3]), .regenerate)
        #expect(kept(removed) == [1, 2] && removed.needsNew)
    }

    @Test func replacementAtTimeZeroIsRecordedAsReplaced() {
        let removed = renewed(secret(nil, boxes: [1, 2, 3]))
        #expect(removed.adding([9], signedByReplaced: [], at: 0).map(\.replacedAt) == [0, 1])
    }
}

import Syncing
import Testing

@Suite struct AccessVersionTests {
    private let jane = PrincipalKey(.user, "jane")
    private let editors = PrincipalKey(.role, "editors")

    @Test func onlyALaterChangeOfTheSamePrincipalCounts() {
        var versions = AccessVersions()
        versions.recordChange(of: jane)
        let version = versions.newest
        #expect(!versions.hasChanged([jane, editors], since: version))
        versions.recordChange(of: PrincipalKey(.user, "editors"))
        #expect(!versions.hasChanged([jane, editors], since: version))
        versions.recordChange(of: editors)
        #expect(versions.hasChanged([jane, editors], since: version))
        #expect(!versions.hasChanged([jane], since: version))
        #expect(!versions.hasChanged([jane, editors], since: versions.newest))
        #expect(!versions.hasChanged([], since: version))
    }

    @Test func everyPrincipalCountsAsChangedOnceChangesAreForgotten() {
        var versions = AccessVersions()
        versions.recordChange(of: jane)
        let version = versions.newest
        for number in 1..<AccessVersions.changesMax {
            versions.recordChange(of: PrincipalKey(.user, "user\(number)"))
        }
        #expect(!versions.hasChanged([jane], since: version))
        versions.recordChange(of: editors)
        #expect(versions.hasChanged([jane], since: version))
        #expect(!versions.hasChanged([jane], since: versions.newest))
    }
}

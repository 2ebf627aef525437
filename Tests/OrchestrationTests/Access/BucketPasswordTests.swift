import Orchestration
import Testing
import Vocabulary

/// The password of a bucket: in the form, in the agreed state and in its encoding.
@Suite struct BucketPasswordTests {
    private let keys: [UInt8] = [4, 5, 6]

    private func world() -> ClusterWorld { .withDesigns() }

    private func validate(
        _ fields: [(String, String)],
        changing bucket: BucketRecord? = nil,
        _ state: ClusterState
    ) -> BucketForm.Decision {
        let name = [("name", "new"), ("ramQuotaMB", "100")]
        let form = FormParameters(((bucket == nil ? name : []) + fields).map { ($0.0, $0.1) })
        let ground = BucketForm.Ground(
            state: state,
            existing: bucket,
            uuid: "new",
            password: keys
        )
        return BucketForm.validate(form, on: ground)
    }

    private func password(_ decision: BucketForm.Decision) -> [UInt8]? {
        if case .accepted(let settings, _) = decision { settings.password } else { nil }
    }

    private func field(_ decision: BucketForm.Decision) -> String? {
        if case .refused(let errors) = decision { errors.first?.field } else { nil }
    }

    @Test func formSetsKeepsAndRemovesPassword() throws {
        var world = world()
        #expect(password(validate([], world.state)) == [])
        #expect(password(validate([("saslPassword", "")], world.state)) == [])
        #expect(password(validate([("saslPassword", "x")], world.state)) == keys)
        let bucket = try #require(world.state.bucket(named: "b"))
        var settings = bucket.settings
        settings.password = [9]
        world.apply(.changeBucket(BucketChange(settings: settings, options: bucket.options)))
        let changed = try #require(world.state.bucket(named: "b"))
        #expect(changed.settings.password == [9])
        func after(_ fields: [(String, String)]) -> [UInt8]? {
            password(validate(fields, changing: changed, world.state))
        }
        #expect(after([("flushEnabled", "1")]) == [9])
        #expect(after([("saslPassword", "x")]) == keys)
        #expect(after([("saslPassword", "")]) == [])
        #expect(after([("passwordless", "1")]) == [])
    }

    @Test func passwordIsRefusedWithoutEffect() {
        let fields = [("saslPassword", "x"), ("passwordless", "1")]
        #expect(field(validate(fields, world().state)) == "saslPassword")
    }

    @Test func logRefusesPasswordAboveTheLimit() throws {
        for (count, isApplied) in [
            (Limits.userCredentialsBytesMax, true), (Limits.userCredentialsBytesMax + 1, false),
        ] {
            var world = world()
            let bucket = try #require(world.state.bucket(named: "b"))
            var settings = bucket.settings
            settings.password = [UInt8](repeating: 9, count: count)
            world.apply(.changeBucket(BucketChange(settings: settings, options: bucket.options)))
            let after = world.state.bucket(named: "b")?.settings.password
            #expect(after == (isApplied ? settings.password : []))
        }
    }

    @Test(arguments: PasswordlessAccess.allCases)
    func passwordSurvivesItsEncoding(_ access: PasswordlessAccess) throws {
        var world = world()
        let bucket = try #require(world.state.bucket(named: "b"))
        var settings = bucket.settings
        settings.password = keys
        settings.passwordless = access
        settings.minimumDurability = .persistToMajority
        let change = ClusterCommand.changeBucket(
            BucketChange(settings: settings, options: bucket.options)
        )
        world.apply(change)
        guard case .state(let decoded) = ClusterState.decode(world.state.encoded()) else {
            Issue.record("not decoded")
            return
        }
        #expect(decoded == world.state)
        #expect(decoded.bucket(named: "b")?.settings == settings)
    }
}

import Orchestration
import Testing
import Vocabulary

/// Local users as part of the agreed state.
@Suite struct UserTests {
    private static func password(_ byte: UInt8, at seconds: UInt64 = 5) -> UserChange.Password {
        UserChange.Password(credentials: [byte], changedSeconds: seconds)
    }

    private static func put(
        _ id: String,
        name: String = "",
        _ roles: [RoleGrant] = [],
        password: UserChange.Password? = password(1)
    ) -> ClusterCommand {
        .putUser(UserChange(id: id, name: name, roles: Grants(roles), password: password))
    }

    private static func changed(_ ids: String...) -> ClusterOutcome {
        .applied([.usersChanged(ids)])
    }

    private static let reader = RoleGrant(.dataReader, bucket: "b")

    // MARK: Changes

    @Test func userIsCreatedReplacedAndDeleted() throws {
        var world = ClusterWorld.withUsers()
        #expect(world.apply(Self.put("ann", name: "A", [Self.reader])) == Self.changed("ann"))
        let made = try #require(world.state.user("ann"))
        #expect(made.name == "A" && made.grants == [Self.reader])
        #expect(made.credentials == [1] && made.passwordChangedSeconds == 5)
        // Without a password, the present one stays.
        let admin = Self.put("ann", [RoleGrant(.admin)], password: nil)
        #expect(world.apply(admin) == Self.changed("ann"))
        #expect(world.apply(admin) == .applied([]))
        let replaced = try #require(world.state.user("ann"))
        #expect(replaced.name.isEmpty && replaced.grants == [RoleGrant(.admin)])
        #expect(replaced.credentials == [1] && replaced.passwordChangedSeconds == 5)
        #expect(
            world.apply(Self.put("ann", password: Self.password(2, at: 9))) == Self.changed("ann")
        )
        #expect(world.state.user("ann")?.credentials == [2])
        #expect(world.state.user("ann")?.passwordChangedSeconds == 9)
        #expect(world.apply(.deleteUser(id: "ann")) == Self.changed("ann"))
        #expect(world.state.users.isEmpty)
        #expect(world.apply(.deleteUser(id: "ann")) == .refused(.userUnknown))
        #expect(world.apply(Self.put("ann", password: nil)) == .refused(.userUnknown))
    }

    @Test func usersAreSortedByBytesAndNamedByThem() {
        var world = ClusterWorld.withUsers()
        for id in ["x", "X", "a b", "\u{e9}", "e\u{301}"] {
            #expect(world.apply(Self.put(id)) == Self.changed(id))
        }
        let sorted = ["X", "a b", "e\u{301}", "x", "\u{e9}"]
        #expect(world.state.users.map { Array($0.id.utf8) } == sorted.map { Array($0.utf8) })
    }

    @Test(arguments: ["", "a:b", "a,b", "a\"b", "a\\b", "a/b", "{", "\u{7f}", "a\nb", "tab\t"])
    func impossibleNameIsRefused(_ id: String) {
        var world = ClusterWorld.withUsers()
        #expect(world.apply(Self.put(id)) == .refused(.userImpossible))
    }

    @Test func nameAndKeysAreBounded() {
        var world = ClusterWorld.withUsers()
        let id = String(repeating: "x", count: Limits.userIDBytesMax)
        #expect(world.apply(Self.put(id)) == Self.changed(id))
        #expect(world.apply(Self.put(id + "x")) == .refused(.userImpossible))
        let name = String(repeating: "x", count: Limits.userNameBytesMax)
        #expect(world.apply(Self.put("ann", name: name)) == Self.changed("ann"))
        #expect(world.apply(Self.put("ann", name: name + "x")) == .refused(.userImpossible))
        let keys = [UInt8](repeating: 1, count: Limits.userCredentialsBytesMax + 1)
        let password = UserChange.Password(credentials: keys, changedSeconds: 1)
        #expect(world.apply(Self.put("ann", password: password)) == .refused(.userImpossible))
    }

    @Test func numberOfUsersIsBounded() {
        var world = ClusterWorld.withUsers()
        for number in 0..<Limits.usersMax {
            _ = world.state.apply(Self.put("u\(number)"), at: world.state.index + 1)
        }
        world.index = world.state.index
        #expect(world.state.users.count == Limits.usersMax)
        #expect(world.apply(Self.put("one more")) == .refused(.tooManyUsers))
        // A present user can still be changed.
        #expect(world.apply(Self.put("u0", name: "first")) == Self.changed("u0"))
        #expect(world.apply(.deleteUser(id: "u1")) == Self.changed("u1"))
        #expect(world.apply(Self.put("one more")) == Self.changed("one more"))
    }

    @Test func sizeOfAllUsersIsBounded() {
        var world = ClusterWorld.withUsers()
        let keys = [UInt8](repeating: 1, count: Limits.userCredentialsBytesMax)
        let password = UserChange.Password(credentials: keys, changedSeconds: 1)
        var made = 0
        while made < Limits.usersMax {
            let command = Self.put("u\(made)", password: password)
            let outcome = world.state.apply(command, at: world.state.index + 1)
            if outcome == .refused(.tooManyUsers) { break }
            made += 1
        }
        let sum = world.state.users.reduce(0) { $0 + $1.byteCount }
        #expect(made < Limits.usersMax)
        #expect(sum <= Limits.usersBytesMax)
        #expect(sum > Limits.usersBytesMax - keys.count - 200)
    }

    // MARK: Password

    @Test func passwordIsReplacedOnlyIfItIsTheOneThatTheChangeIsBasedOn() {
        var world = ClusterWorld.withUsers()
        world.apply(Self.put("ann", [Self.reader]))
        func change(_ id: String, was: [UInt8]) -> ClusterCommand {
            .changePassword(PasswordChange(id: id, password: Self.password(2, at: 9), was: was))
        }
        #expect(world.apply(change("bob", was: [1])) == .refused(.userUnknown))
        #expect(world.apply(change("ann", was: [7])) == .refused(.changedMeanwhile))
        #expect(world.apply(change("ann", was: [1])) == Self.changed("ann"))
        #expect(world.state.user("ann")?.credentials == [2])
        #expect(world.state.user("ann")?.passwordChangedSeconds == 9)
        #expect(world.state.user("ann")?.grants == [Self.reader])
        #expect(world.apply(change("ann", was: [1])) == .refused(.changedMeanwhile))
    }

    // MARK: Buckets

    @Test func roleOfAnAbsentBucketIsRefused() {
        var world = ClusterWorld.withUsers()
        let other = RoleGrant(.dataReader, bucket: "other")
        #expect(world.apply(Self.put("ann", [Self.reader, other])) == .refused(.bucketUnknown))
        #expect(world.apply(Self.put("ann", [RoleGrant(.dataReader)])) == Self.changed("ann"))
    }

    @Test func deletionOfBucketRevokesItsRoles() {
        var world = ClusterWorld.withUsers()
        let every = RoleGrant(.dataReader)
        world.apply(Self.put("ann", [Self.reader, every]))
        world.apply(Self.put("bob", [every]))
        world.apply(Self.put("cy", [Self.reader]))
        let step = BucketStep(name: "b", uuid: "b-uuid", phase: .begin)
        let outcome = world.apply(.deleteBucket(step))
        let effects: [ClusterEffect] = [.bucketDeleted(name: "b"), .usersChanged(["ann", "cy"])]
        #expect(outcome == .applied(effects))
        #expect(world.state.user("ann")?.grants == [every])
        #expect(world.state.user("cy")?.grants == [])
        world.apply(.deleteBucket(BucketStep(name: "b", uuid: "b-uuid", phase: .end)))
        world.createBucket(replicas: 0, rows: [[n(1)]])
        #expect(world.state.user("cy")?.grants == [])
    }

    // MARK: The administrator

    @Test func administratorAndUsersHaveDifferentNames() {
        var world = ClusterWorld.withUsers()
        #expect(world.apply(Self.put("Administrator")) == .refused(.userExists))
        world.apply(Self.put("ann"))
        let ann = Administrator(name: "ann", credentials: [3])
        #expect(world.apply(.setAdministrator(ann)) == .refused(.userExists))
        world.apply(.deleteUser(id: "ann"))
        #expect(world.apply(.setAdministrator(ann)) == .applied([.administratorChanged]))
        #expect(world.apply(Self.put("Administrator")) == Self.changed("Administrator"))
    }

    @Test func grantsAreThoseOfTheAdministratorAndOfUsers() {
        var world = ClusterWorld.withUsers()
        world.apply(Self.put("ann", [Self.reader]))
        #expect(world.state.grants(ofUser: "Administrator") == .all)
        #expect(world.state.grants(ofUser: "ann") == Grants([Self.reader]))
        #expect(world.state.grants(ofUser: "b") == nil)
    }
}

extension ClusterWorld {
    /// One node with bucket `b`.
    static func withUsers() -> ClusterWorld { withDesigns() }
}

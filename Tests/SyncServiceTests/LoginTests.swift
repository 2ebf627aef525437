import SyncService
import SyncWire
import Syncing
import TestSupport
import Testing

/// Passwords, sessions, and principals of the configuration.
@Suite struct LoginTests {
    private static let users = #"""
        "users":{"GUEST":{"disabled":true,"admin_channels":["*"]},"jane":{"password":"letmein","admin_channels":["x"]}},
        """#

    @Test func configuredUsersHaveASequenceEachAndMayLogInAtOnce() async throws {
        let world = try SyncWorld(nil, Self.users)
        defer { world.stop() }
        let failure = await world.run { database in
            do throws(Refusal) {
                try await database.writeConfiguredPrincipals()
                return nil as Refusal?
            } catch {
                return error
            }
        }
        #expect(failure == nil)
        #expect(world.database.updateSequence == 2)
        #expect(await world.login("jane", "letmein") == "jane")
        #expect(await world.login("jane", "wrong") == nil)
        #expect(await world.login("ann", "letmein") == nil)
    }

    @Test func passwordEndsSessionsAndDisabledUsersHaveNone() async throws {
        let world = try SyncWorld()
        defer { world.stop() }
        #expect(await world.putUser("joe", #"{"password":"letmein"}"#) == .created)
        #expect(await world.login("joe", "letmein") == "joe")
        let id = await session(world, "joe")
        #expect(await login(world, id) == "joe")
        #expect(await world.putUser("joe", #"{"password":"another"}"#) == .changed)
        #expect(await login(world, id) == nil)
        #expect(await world.login("joe", "letmein") == nil)
        #expect(await world.login("joe", "another") == "joe")
        #expect(await world.putUser("joe", #"{"disabled":true}"#) == .changed)
        #expect(await world.login("joe", "another") == nil)
        #expect(
            await world.putUser("ann", #"{"password":"ab"}"#)
                == .refused(Refusal(400, "Passwords must be at least three 3 characters"))
        )
    }

    @Test func sessionEndsWithItsTime() async throws {
        let world = try SyncWorld()
        defer { world.stop() }
        _ = await world.putUser("joe", #"{"password":"letmein"}"#)
        let id = await session(world, "joe")
        world.time.advance(by: 20 * 3_600 * 1_000_000_000)
        // This use renews it.
        #expect(await login(world, id) == "joe")
        world.time.advance(by: 20 * 3_600 * 1_000_000_000)
        #expect(await login(world, id) == "joe")
        world.time.advance(by: 25 * 3_600 * 1_000_000_000)
        #expect(await login(world, id) == nil)
    }

    @Test func oneTimeSessionCountsOnce() async throws {
        let world = try SyncWorld()
        defer { world.stop() }
        _ = await world.putUser("joe", #"{"password":"letmein"}"#)
        let id = await session(world, "joe", isOneTime: true)
        async let one = login(world, id)
        async let other = login(world, id)
        let names = await [one, other].compactMap(\.self)
        #expect(names == ["joe"])
    }

    private func session(
        _ world: SyncWorld,
        _ name: String,
        isOneTime: Bool = false
    ) async -> String {
        await world.run { database in
            guard let user = await database.principal(PrincipalKey(.user, name))?.principal,
                let session = try? await database.createSession(of: user, isOneTime: isOneTime)
            else { return "" }
            return session.id
        }
    }

    /// Logs in by a cookie; nil if the session has ended.
    private func login(_ world: SyncWorld, _ id: String) async -> String? {
        await world.run { database in
            var offer = LoginOffer()
            offer.sessionID = id
            guard case .accepted(let requester, _) = await database.login(offer) else { return nil }
            return requester.user?.key.name
        }
    }
}

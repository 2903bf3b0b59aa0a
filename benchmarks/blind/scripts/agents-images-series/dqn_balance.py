"""DQN on a small pole balancing task (no gym needed)."""
import copy
import math
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class PoleEnv:
    def __init__(self, max_steps=200, seed=0):
        self.max_steps = max_steps
        self.rng = np.random.default_rng(seed)
        self.state = None
        self.t = 0

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, size=4)
        self.t = 0
        return self.state.astype(np.float32)

    def step(self, action):
        x, x_dot, theta, theta_dot = self.state
        force = 10.0 if action == 1 else -10.0
        cos, sin = math.cos(theta), math.sin(theta)
        temp = (force + 0.05 * theta_dot**2 * sin) / 1.1
        theta_acc = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        x_acc = temp - 0.05 * theta_acc * cos / 1.1
        self.state = np.array(
            [x + 0.02 * x_dot, x_dot + 0.02 * x_acc, theta + 0.02 * theta_dot, theta_dot + 0.02 * theta_acc]
        )
        self.t += 1
        terminated = bool(abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21)
        truncated = self.t >= self.max_steps
        return self.state.astype(np.float32), 1.0, terminated, truncated


class QNet(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden=64):
        super().__init__()
        self.fc1 = nn.Linear(obs_dim, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, n_actions)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.out(x)


class Agent:
    def __init__(self, obs_dim, n_actions, lr=1e-3, gamma=0.99, capacity=10_000, batch_size=64):
        self.n_actions = n_actions
        self.gamma = gamma
        self.batch_size = batch_size
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.q = QNet(obs_dim, n_actions).to(self.device)
        self.q_target = copy.deepcopy(self.q)
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=lr)
        self.memory = deque(maxlen=capacity)
        self.eps = 1.0
        self.eps_min = 0.05
        self.eps_decay = 0.95

    @torch.no_grad()
    def act(self, obs, greedy=False):
        if not greedy and random.random() < self.eps:
            return random.randrange(self.n_actions)
        obs = torch.as_tensor(obs, device=self.device).unsqueeze(0)
        return self.q(obs).argmax(dim=1).item()

    def remember(self, obs, action, reward, next_obs, done):
        self.memory.append((obs, action, reward, next_obs, done))

    def learn(self):
        if len(self.memory) < self.batch_size:
            return None
        batch = random.sample(self.memory, self.batch_size)
        obs, actions, rewards, next_obs, dones = zip(*batch)
        obs = torch.as_tensor(np.stack(obs), device=self.device)
        next_obs = torch.as_tensor(np.stack(next_obs), device=self.device)
        actions = torch.as_tensor(actions, dtype=torch.int64, device=self.device)
        rewards = torch.as_tensor(rewards, dtype=torch.float32, device=self.device)
        dones = torch.as_tensor(dones, dtype=torch.float32, device=self.device)

        q_sa = self.q(obs).gather(1, actions.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            next_q = self.q_target(next_obs).max(dim=1).values
            target = rewards + self.gamma * next_q * (1.0 - dones)
        loss = F.smooth_l1_loss(q_sa, target)

        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.q.parameters(), 10.0)
        self.optimizer.step()
        return loss.item()

    def end_episode(self):
        self.eps = max(self.eps_min, self.eps * self.eps_decay)

    def sync(self):
        self.q_target.load_state_dict(self.q.state_dict())


def main():
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    env = PoleEnv(seed=1)
    agent = Agent(obs_dim=4, n_actions=2)
    steps = 0
    for episode in range(25):
        obs = env.reset()
        total, done = 0.0, False
        while not done:
            action = agent.act(obs)
            next_obs, reward, terminated, truncated = env.step(action)
            agent.remember(obs, action, reward, next_obs, terminated)
            obs = next_obs
            done = terminated or truncated
            total += reward
            agent.learn()
            steps += 1
            if steps % 200 == 0:
                agent.sync()
        agent.end_episode()
        if episode % 10 == 0:
            print(f"episode {episode} return {total:.0f} eps {agent.eps:.2f}")
    torch.save(agent.q.state_dict(), "dqn.pt")


if __name__ == "__main__":
    main()
